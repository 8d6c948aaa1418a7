// SPDX-License-Identifier: Apache-2.0
#include "codelets/conformance/cases.hpp"
#include "codelets/linear/low_rank_codelet.hpp"

namespace dos::test {
namespace {

using namespace codelets;

constexpr Index kTokens = 3;
constexpr Index kRank = 2;
constexpr Index kOut = 9;
constexpr Index kFirstPart = 4;
constexpr Index kLastPart = 3;
// Two parts of a product, with columns before, between and behind that have no adapter. A block of
// the second matrix holds rows of both.
constexpr LowRankShape kShape{.rank = kRank,
                              .out = kOut,
                              .scale = 0.5F,
                              .count = 2,
                              .parts = {{{1, kFirstPart}, {5, kLastPart}}}};
constexpr RowBlocking kUp{.rows = kFirstPart + kLastPart, .columns = kRank, .rows_per_block = 3};
constexpr Index kBetween = kTokens * 2 * kRank;

// A y of more tokens than the task has.
constexpr RowRange kRows{.first = 1, .count = kTokens};
constexpr Index kAll = (kTokens + 2) * kOut;
std::vector<Range> columns_used() {
  std::vector<Range> ranges;
  for (Index row = kRows.first; row < kRows.first + kRows.count; ++row)
    ranges.push_back({row * kOut + 1, kFirstPart + kLastPart});
  return ranges;
}

template <class T>
Case forward() {
  Case c{.name = typed_name<T>("low_rank_forward"),
         .codelet = &codelet_of<LowRankForward, T>(),
         .buffers = {reads(kBetween, Values::kUniform, kTypeOf<T>),
                     updates_part(kAll, columns_used(), kTypeOf<T>)},
         .submit =
             [](rt::Submitter& s, const Handles& h) {
               submit<LowRankForward>(s, {.between = h[0], .y = h[1], .up = h.matrix(kUp, 2)},
                                      {kShape, kRows}, {});
             },
         .kernel =
             [](const Memory& m) {
               const auto blocks = m.blocks<const T>(kUp, 2);
               kShape.for_each_part([&](Index k, const LowRankPart& part, Index row) {
                 simd::dispatch([&]<simd::Isa kIsa>() {
                   linear_add_part_cpu<kIsa>({kTokens, row, part.rows, 2 * kRank, kOut},
                                             m.at<const T>(0) + k * kRank,
                                             RowBlocks<const T>{kUp, blocks.data()},
                                             m.at<T>(1) + kRows.first * kOut + part.first);
                 });
               });
             }};
  add_matrix(c.buffers, kUp, Access::kReads, kUp.rows, kTypeOf<T>);
  return c;
}

template <class T>
Case backward_data() {
  Case c{.name = typed_name<T>("low_rank_backward_data"),
         .codelet = &codelet_of<LowRankBackwardData, T>(),
         .buffers = {reads_part(kAll, columns_used(), kTypeOf<T>), writes(kBetween, kTypeOf<T>)},
         .submit =
             [](rt::Submitter& s, const Handles& h) {
               submit<LowRankBackwardData>(s, {.dy = h[0], .between = h[1], .up = h.matrix(kUp, 2)},
                                           {kShape, kRows}, {});
             },
         .kernel =
             [](const Memory& m) {
               const auto blocks = m.blocks<const T>(kUp, 2);
               kShape.for_each_part([&](Index k, const LowRankPart& part, Index row) {
                 simd::dispatch([&]<simd::Isa kIsa>() {
                   linear_backward_part_cpu<kIsa>(
                       {kTokens, row, part.rows, 2 * kRank, kOut},
                       m.at<const T>(0) + kRows.first * kOut + part.first,
                       RowBlocks<const T>{kUp, blocks.data()}, {.scale = kShape.scale},
                       m.at<T>(1) + k * kRank);
                 });
               });
             }};
  add_matrix(c.buffers, kUp, Access::kReads, kUp.rows, kTypeOf<T>);
  return c;
}

/// Rows of a block of `up`, and which part's they are.
struct UpRows {
  Index block;
  Index first;  ///< in the block
  Index count;
  Index part;
  Index column;  ///< of y
};
constexpr UpRows kUpRows[] = {{0, 0, 3, 0, 1}, {1, 0, 1, 0, 4}, {1, 1, 2, 1, 5}, {2, 0, 1, 1, 7}};

template <class T, class G>
Case backward_weight(bool accumulate) {
  Case c{.name = typed_name<T, G>(accumulate ? "low_rank_accumulate_weight"
                                             : "low_rank_backward_weight"),
         .codelet = accumulate ? &codelet_of<LowRankAccumulateWeight, T, G>()
                               : &codelet_of<LowRankBackwardWeight, T, G>(),
         .buffers = {reads_part(kAll, columns_used(), kTypeOf<T>),
                     reads(kBetween, Values::kUniform, kTypeOf<T>)},
         .submit = {},
         .kernel = {}};
  add_matrix(c.buffers, kUp, accumulate ? Access::kUpdates : Access::kWrites, kUp.rows, kTypeOf<G>);
  c.submit = [accumulate](rt::Submitter& s, const Handles& h) {
    submit_low_rank_weight(s, accumulate, {.dy = h[0], .between = h[1], .dup = h.matrix(kUp, 2)},
                           {kShape, kRows}, {});
  };
  c.kernel = [accumulate](const Memory& m) {
    for (const UpRows& rows : kUpRows)
      simd::dispatch([&]<simd::Isa kIsa>() {
        linear_backward_weight_cpu<kIsa>({kTokens, kRank, kOut, rows.column, rows.count, 2 * kRank},
                                         m.at<const T>(0) + kRows.first * kOut,
                                         m.at<const T>(1) + rows.part * kRank, accumulate,
                                         m.at<G>(2 + rows.block) + rows.first * kRank);
      });
  };
  return c;
}

}  // namespace

std::vector<Case> low_rank_cases() {
  std::vector<Case> cases{forward<float>(), forward<BF16>(), backward_data<float>(),
                          backward_data<BF16>()};
  for (const bool accumulate : {false, true})
    add_gradient_cases(
        cases, [&]<class T, class G>() { return std::vector{backward_weight<T, G>(accumulate)}; });
  return cases;
}

}  // namespace dos::test
