// SPDX-License-Identifier: Apache-2.0
// The update codelets on an OpenCL device.
#include <gtest/gtest.h>

#include <optional>

#include "codelets/update/update_codelet.hpp"
#include "codelets/update_device.hpp"
#include "rt/opencl_device.hpp"

namespace dos::test::update_opencl_test {
namespace {

/// OpenCL 1.2, table 7.1: units in the last place, at most 2^-23 relative, doubled as in
/// reference::Arithmetic.
constexpr double kDivision = 2 * 2.5 * 0x1p-23;
constexpr double kRoot = 2 * 3 * 0x1p-23;
constexpr double kSmallestNormal = 0x1p-126;

class UpdateOpencl : public OnOpenclDevice,
                     public ::testing::WithParamInterface<codelets::UpdateKind> {
 protected:
  void SetUp() override {
    OnOpenclDevice::SetUp();
    if (IsSkipped()) return;
    submitter_.emplace(*session_);
    device_ = rt::opencl_devices().at(0);
    arithmetic_.division = device_->correctly_rounded ? arithmetic_.division : kDivision;
    arithmetic_.root = device_->correctly_rounded ? arithmetic_.root : kRoot;
    arithmetic_.flushed = device_->denormals ? 0 : kSmallestNormal;
  }

  std::optional<rt::Submitter> submitter_;
  std::optional<rt::OpenclDevice> device_;
  reference::Arithmetic arithmetic_;
};
INSTANTIATE_TEST_SUITE_P(All, UpdateOpencl, ::testing::ValuesIn(update_kinds()),
                         [](const auto& test) { return name_of(test.param); });

TEST_P(UpdateOpencl, Conforms) {
  expect_conforming({.name = device_->name,
                     .arithmetic = arithmetic_,
                     .update = [&](UpdateData& data) { update_as_task(*submitter_, data); }},
                    GetParam());
  expect_conforming(
      {.name = device_->name,
       .arithmetic = arithmetic_,
       .update = [&](UpdateData& data) { update_as_task(*submitter_, data, /*in_place=*/false); }},
      GetParam());
  if (!device_->correctly_rounded || !device_->denormals) return;
  std::vector<UpdateData> on_cpu = update_inputs(GetParam());
  std::vector<UpdateData> on_device = update_inputs(GetParam());
  for (std::size_t i = 0; i < on_cpu.size(); ++i) {
    codelets::update_cpu<simd::Isa::kPortable>(GetParam())(on_cpu[i].step.bytes,
                                                           on_cpu[i].arrays());
    update_as_task(*submitter_, on_device[i]);
    EXPECT_TRUE(same_results(on_cpu[i], on_device[i])) << "input " << i;
  }
}

}  // namespace
}  // namespace dos::test::update_opencl_test
