// SPDX-License-Identifier: Apache-2.0
// The update kernels on an NVIDIA GPU, called directly and as codelets of a StarPU with CUDA.
#include <gtest/gtest.h>

#include "codelets/cuda/compiled.hpp"
#include "codelets/update/update_codelet.hpp"
#include "codelets/update_cuda_device.hpp"
#include "codelets/update_device.hpp"

namespace dos::test {
namespace {

/// Why there is nothing to test, "" if there is.
std::string missing() {
  if constexpr (codelets::kHasCudaKernels) {
    return cuda_devices() > 0 ? "" : "no CUDA device";
  }
  return "built without nvcc";
}

void update_directly(UpdateData& data, Index shift) {
  if constexpr (codelets::kHasCudaKernels) {
    const char* fault =
        update_on_gpu(data.kind, data.step, data.arrays(), std::ssize(data.states), shift);
    ASSERT_EQ(fault, nullptr) << fault;
  }
}

/// Nothing is contracted on either, and both round correctly: no bit differs.
void expect_bits_of_portable(const codelets::UpdateKind& kind, Index shift) {
#if defined(__x86_64__)
  std::vector<UpdateData> on_cpu = update_inputs(kind);
  std::vector<UpdateData> on_gpu = update_inputs(kind);
  for (std::size_t i = 0; i < on_cpu.size(); ++i) {
    codelets::update_cpu<simd::Isa::kPortable>(kind)(on_cpu[i].step.bytes, on_cpu[i].arrays());
    update_directly(on_gpu[i], shift);
    EXPECT_TRUE(same_results(on_cpu[i], on_gpu[i])) << "input " << i;
  }
#endif
}

TEST(UpdateCuda, KernelsConformAlignedAndNot) {
  if (const std::string reason = missing(); !reason.empty()) GTEST_SKIP() << reason;
  for (const codelets::UpdateKind& kind : update_kinds())
    for (const Index shift : {0, 1}) {
      SCOPED_TRACE(name_of(kind) + " shifted by " + std::to_string(shift));
      expect_conforming({.name = "CUDA",
                         .arithmetic = {},
                         .update = [&](UpdateData& data) { update_directly(data, shift); }},
                        kind);
      expect_bits_of_portable(kind, shift);
    }
}

TEST(UpdateCuda, CodeletsConform) {
  if (const std::string reason = missing(); !reason.empty()) GTEST_SKIP() << reason;
  if (!rt::has_cuda()) GTEST_SKIP() << "this StarPU was built without CUDA";
  rt::Session session({.scheduler = "", .cpu_workers = 0, .cuda_workers = 1});
  rt::Submitter submitter(session);
  for (const codelets::UpdateKind& kind : update_kinds()) {
    SCOPED_TRACE(name_of(kind));
    expect_conforming({.name = "CUDA worker",
                       .arithmetic = {},
                       .update = [&](UpdateData& data) { update_as_task(submitter, data); }},
                      kind);
  }
}

}  // namespace
}  // namespace dos::test
