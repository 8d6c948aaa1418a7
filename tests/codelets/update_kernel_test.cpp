// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "codelets/update_suite.hpp"

namespace dos::test {
namespace {

class UpdateKernel : public ::testing::TestWithParam<codelets::UpdateKind> {};
INSTANTIATE_TEST_SUITE_P(All, UpdateKernel, ::testing::ValuesIn(update_kinds()),
                         [](const auto& test) { return name_of(test.param); });

TEST_P(UpdateKernel, ConformsOnEveryInstructionSet) {
  for_each_compiled_isa([&]<simd::Isa isa>() {
    expect_conforming({.name = simd::name_of(isa),
                       .arithmetic = {},
                       .update =
                           [](UpdateData& data) {
                             codelets::update_cpu<isa>(data.kind)(data.step.bytes, data.arrays());
                           }},
                      GetParam());
  });
}

TEST(UpdateKernel, BytesFollowFromTheRule) {
  using codelets::bytes_per_parameter;
  EXPECT_EQ(bytes_per_parameter({0, DType::kF32, DType::kF32}, 2), 28);
  EXPECT_EQ(bytes_per_parameter({0, DType::kBF16, DType::kBF16}, 2), 28);
  EXPECT_EQ(bytes_per_parameter({0, DType::kBF16, DType::kF32}, 1), 18);
}

}  // namespace
}  // namespace dos::test
