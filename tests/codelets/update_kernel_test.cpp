// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "base/crc32c.hpp"
#include "base/random.hpp"
#include "codelets/update/update_sums.hpp"
#include "codelets/update_suite.hpp"

namespace dos::test::update_kernel_test {
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

TEST_P(UpdateKernel, ConformsApart) {
  for_each_compiled_isa([&]<simd::Isa isa>() {
    expect_conforming({.name = simd::name_of(isa),
                       .arithmetic = {},
                       .update =
                           [](UpdateData& data) {
                             update_apart(data, [&](const codelets::UpdateArrays& arrays) {
                               codelets::update_cpu<isa>(data.kind)(data.step.bytes, arrays);
                             });
                           }},
                      GetParam());
  });
}

// Whatever processor or device makes an update, in place or not.
TEST_P(UpdateKernel, HasTheSameBitsOnEveryInstructionSet) {
  std::vector<UpdateData> portable = update_inputs(GetParam());
  for (UpdateData& data : portable)
    codelets::update_cpu<simd::Isa::kPortable>(GetParam())(data.step.bytes, data.arrays());
  for_each_compiled_isa([&]<simd::Isa isa>() {
    std::vector<UpdateData> in_place = update_inputs(GetParam());
    std::vector<UpdateData> apart = update_inputs(GetParam());
    for (std::size_t i = 0; i < portable.size(); ++i) {
      SCOPED_TRACE(testing::Message() << simd::name_of(isa) << ", input " << i);
      const codelets::UpdateKernel kernel = codelets::update_cpu<isa>(GetParam());
      kernel(in_place[i].step.bytes, in_place[i].arrays());
      update_apart(apart[i], [&](const codelets::UpdateArrays& arrays) {
        kernel(apart[i].step.bytes, arrays);
      });
      EXPECT_TRUE(same_results(portable[i], in_place[i]));
      EXPECT_TRUE(same_results(portable[i], apart[i]));
    }
  });
}

/// Ends of pieces of all lengths, up to the last element.
std::vector<Index> drawn_ends(Index count, std::uint64_t seed) {
  const Philox random(seed);
  std::vector<Index> ends;
  for (Index end = 0; end < count;) {
    const double length = random.uniform(static_cast<std::uint64_t>(end)) * 3000;
    end = std::min(count, end + 1 + static_cast<Index>(length));
    ends.push_back(end);
  }
  return ends;
}

void expect_sums(const UpdateData& data, const codelets::UpdateSums& sums,
                 std::span<const Index> ends) {
  Index first = 0;
  for (const Index end : ends) {
    for (Index array = 0; array <= std::ssize(data.states); ++array) {
      const float* elements =
          array == 0 ? data.p->get() : data.states[static_cast<std::size_t>(array - 1)]->get();
      const std::span piece(elements + first, elements + end);
      const auto sum = sums.find(7, array, first, end);
      ASSERT_TRUE(sum) << first;
      EXPECT_EQ(sum->crc32c, crc32c(std::as_bytes(piece)));
      const bool is_finite =
          std::ranges::all_of(piece, [](float value) { return std::isfinite(value); });
      EXPECT_EQ(sum->is_finite, is_finite || array > 0);
    }
    EXPECT_FALSE(sums.find(6, 0, first, end));
    EXPECT_FALSE(sums.find(7, 0, first, end + 1));
    EXPECT_FALSE(sums.find(7, 0, first + 1, end));
    first = end;
  }
}

TEST_P(UpdateKernel, SumsAreOfWhatAnUpdateOfTheSameBitsLeaves) {
  using codelets::UpdateSums;
  for_each_compiled_isa([&]<simd::Isa isa>() {
    std::vector<UpdateData> whole = update_inputs(GetParam());
    std::vector<UpdateData> summed = update_inputs(GetParam());
    std::vector<UpdateData> others = update_inputs(GetParam());
    for (Index count : {8192, 8193, 30'000}) {
      whole.push_back(normal_input(GetParam(), count));
      summed.push_back(normal_input(GetParam(), count));
      others.push_back(normal_input(GetParam(), count));
    }
    const codelets::UpdateKernel kernel = codelets::update_cpu<isa>(GetParam());
    for (std::size_t i = 0; i < whole.size(); ++i) {
      UpdateData& data = summed[i];
      SCOPED_TRACE(testing::Message() << simd::name_of(isa) << ", " << data.count() << " elements");
      if (data.count() == 0) continue;
      kernel(whole[i].step.bytes, whole[i].arrays());
      const std::vector<Index> ends = drawn_ends(data.count(), i);
      const Index arrays = 1 + std::ssize(data.states);
      std::vector<std::int32_t> words(
          static_cast<std::size_t>(UpdateSums::words(arrays, std::ssize(ends))));
      UpdateSums::prepare(words, arrays, ends);
      EXPECT_FALSE(UpdateSums(words).find(7, 0, 0, ends[0]));
      codelets::update_with_sums({kernel, &codelets::all_finite_cpu<isa>}, data.kind, data.step,
                                 data.arrays(), 7, UpdateSums(words));
      EXPECT_TRUE(same_results(whole[i], data));
      expect_sums(data, UpdateSums(words), ends);
      UpdateSums::prepare(words, arrays, ends);
      UpdateData& apart = others[i];
      update_apart(apart, [&](const codelets::UpdateArrays& all) {
        codelets::update_with_sums({kernel, &codelets::all_finite_cpu<isa>}, apart.kind, apart.step,
                                   all, 7, UpdateSums(words));
      });
      EXPECT_TRUE(same_results(whole[i], apart));
      expect_sums(apart, UpdateSums(words), ends);
    }
  });
}

TEST(UpdateKernel, BytesFollowFromTheRule) {
  using codelets::bytes_per_parameter;
  EXPECT_EQ(bytes_per_parameter({0, DType::kF32, DType::kF32}, 2), 28);
  EXPECT_EQ(bytes_per_parameter({0, DType::kBF16, DType::kBF16}, 2), 28);
  EXPECT_EQ(bytes_per_parameter({0, DType::kBF16, DType::kF32}, 1), 18);
}

}  // namespace
}  // namespace dos::test::update_kernel_test
