// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "codelets/conformance/cases.hpp"
#include "codelets/cross_entropy/cross_entropy_codelet.hpp"
#include "codelets/reduce/reduce.hpp"
#include "codelets/reduce/reduce_codelet.hpp"

namespace dos::test {
namespace {

using namespace codelets;

// Rows that start inside one sequence and end inside another and lie apart; room for one row more.
constexpr Index kSequences = 3;
constexpr CrossEntropyRows kRows{
    .first_row = 3, .rows = 6, .context = 4, .vocabulary = 11, .stride = 13};
constexpr Index kCapacity = (kRows.rows + 1) * kRows.stride;
constexpr float kScale = 0.125F;

std::vector<Range> used() {
  std::vector<Range> rows;
  for (Index row = 0; row < kRows.rows; ++row)
    rows.push_back({row * kRows.stride, kRows.vocabulary});
  return rows;
}

Buffer tokens() {
  const Index count = kSequences * (kRows.context + 1);
  return {.type = DType::kI32,
          .count = count,
          .inputs = {{0, count}},
          .values = Values::kTokens,
          .vocabulary = kRows.vocabulary};
}

Buffer sum(Access access) {
  Buffer buffer = updates(1, Values::kPositive, DType::kF64);
  if (access == Access::kReads) buffer.outputs.clear();
  if (access == Access::kWrites) buffer.inputs.clear();
  return buffer;
}

template <class T>
Case cross_entropy_forward() {
  return {
      .name = typed_name<T>("cross_entropy_forward"),
      .codelet = &codelet_of<CrossEntropyForward, T>(),
      .buffers = {reads_part(kCapacity, used(), kTypeOf<T>), tokens(), sum(Access::kUpdates)},
      .submit =
          [](rt::Submitter& s, const Handles& h) {
            submit<CrossEntropyForward>(s, {.logits = h[0], .tokens = h[1], .loss = h[2]}, kRows,
                                        {});
          },
      .kernel =
          [](const Memory& m) {
            simd::dispatch([&]<simd::Isa kIsa>() {
              cross_entropy_forward_cpu<kIsa>(kRows, m.at<const T>(0), m.at<std::int32_t>(1),
                                              m.at<double>(2));
            });
          },
  };
}

template <class T>
Case cross_entropy_forward_backward() {
  return {
      .name = typed_name<T>("cross_entropy_forward_backward"),
      .codelet = &codelet_of<CrossEntropyForwardBackward, T>(),
      .buffers = {updates_part(kCapacity, used(), kTypeOf<T>), tokens(), sum(Access::kUpdates)},
      .submit =
          [](rt::Submitter& s, const Handles& h) {
            submit<CrossEntropyForwardBackward>(s, {.logits = h[0], .tokens = h[1], .loss = h[2]},
                                                {kRows, kScale}, {});
          },
      .kernel =
          [](const Memory& m) {
            simd::dispatch([&]<simd::Isa kIsa>() {
              cross_entropy_forward_backward_cpu<kIsa>(kRows, kScale, m.at<T>(0),
                                                       m.at<std::int32_t>(1), m.at<double>(2));
            });
          },
  };
}

Case mean_loss() {
  constexpr Index kTokens = 24;
  return {
      .name = "mean_loss",
      .codelet = &codelet_of<MeanLoss>(),
      .buffers = {sum(Access::kWrites), sum(Access::kUpdates), sum(Access::kUpdates),
                  sum(Access::kUpdates)},
      .submit =
          [](rt::Submitter& s, const Handles& h) {
            const std::array<const rt::Handle*, 3> lanes{&h[1], &h[2], &h[3]};
            submit<MeanLoss>(s, {.mean = h[0], .lanes = lanes}, {kTokens}, {});
          },
      .kernel =
          [](const Memory& m) {
            *m.at<double>(0) =
                (*m.at<double>(1) + *m.at<double>(2) + *m.at<double>(3)) / double{kTokens};
            for (Index lane = 1; lane <= 3; ++lane) *m.at<double>(lane) = 0;
          },
  };
}

template <class T>
Case sum_of_squares() {
  constexpr Index kCount = 37;
  return {
      .name = typed_name<T>("sum_of_squares"),
      .codelet = &codelet_of<SumOfSquares, T>(),
      .buffers = {reads(kCount, Values::kUniform, kTypeOf<T>), sum(Access::kWrites)},
      .submit = [](rt::Submitter& s,
                   const Handles& h) { submit<SumOfSquares>(s, {.x = h[0], .sum = h[1]}, {}); },
      .kernel =
          [](const Memory& m) {
            simd::dispatch([&]<simd::Isa kIsa>() {
              *m.at<double>(1) = sum_of_squares_cpu<kIsa>(kCount, m.at<const T>(0));
            });
          },
  };
}

Case combine_norm(const char* name, float max_norm) {
  return {
      .name = name,
      .codelet = &codelet_of<CombineNorm>(),
      .buffers = {updates(1), sum(Access::kWrites), sum(Access::kReads), sum(Access::kReads)},
      .submit =
          [max_norm](rt::Submitter& s, const Handles& h) {
            const std::array<const rt::Handle*, 2> sums{&h[2], &h[3]};
            submit<CombineNorm>(s, {.factor = h[0], .norm = h[1], .sums = sums}, {max_norm}, {});
          },
      .kernel =
          [max_norm](const Memory& m) {
            const std::array<double, 2> sums{*m.at<double>(2), *m.at<double>(3)};
            const ClipResult result = codelets::combine_norm(sums, max_norm, *m.at<float>(0));
            *m.at<float>(0) = result.factor;
            *m.at<double>(1) = result.norm;
          },
  };
}

Case tell_factor() {
  return {
      .name = "tell_factor",
      .codelet = &codelet_of<TellFactor>(),
      .buffers = {updates(1), writes(1)},
      .submit = [](rt::Submitter& s,
                   const Handles& h) { submit<TellFactor>(s, {.factor = h[0], .told = h[1]}, {}); },
      .kernel = [](const Memory& m) { *m.at<float>(1) = *m.at<float>(0); },
  };
}

}  // namespace

std::vector<Case> loss_cases() {
  return {tell_factor(),
          cross_entropy_forward<float>(),
          cross_entropy_forward<BF16>(),
          cross_entropy_forward_backward<float>(),
          cross_entropy_forward_backward<BF16>(),
          mean_loss(),
          sum_of_squares<float>(),
          sum_of_squares<BF16>(),
          combine_norm("combine_norm", 0.1F),
          combine_norm("combine_norm_without_clipping", 0)};
}

}  // namespace dos::test
