// SPDX-License-Identifier: Apache-2.0
#include "codelets/linear/linear.hpp"

#include "codelets/conformance/cases.hpp"
#include "codelets/linear/linear_codelet.hpp"

namespace dos::test {
namespace {

using namespace codelets;

constexpr Index kTokens = 6;
constexpr Index kOut = 7;
constexpr Index kIn = 5;
// The last block is short; blocks of one row make more buffers than StarPU's array holds.
constexpr RowBlocking kWeight{.rows = kOut, .columns = kIn, .rows_per_block = 3};
constexpr RowBlocking kManyBlocks{.rows = kOut, .columns = kIn, .rows_per_block = 1};

// The bias lies in a handle that holds other small tensors too.
constexpr Index kPacked = 12;
constexpr Range kBias{2, kOut};

// Some rows of an activation, for the tasks that take a part of it.
constexpr RowRange kRows{.first = 2, .count = 3};
constexpr Range rows_of_x() {
  return {kRows.first * kIn, kRows.count * kIn};
}

SliceRef bias_in(const rt::Handle& handle) {
  return {&handle, kBias.first};
}

/// y = x w^T + bias [+ residual]. Buffers: x, bias, [residual,] y, then the weight.
void forward_kernel(const Memory& m, const RowBlocking& blocking, bool residual) {
  const auto blocks = m.blocks<const float>(blocking, residual ? 4 : 3);
  simd::dispatch([&]<simd::Isa kIsa>() {
    linear_forward_cpu<kIsa>(
        kTokens, m.at<float>(0), {blocking, blocks.data()}, m.at<float>(1) + kBias.first,
        residual ? m.at<const float>(2) : nullptr, m.at<float>(residual ? 3 : 2));
  });
}

Case forward(const char* name, const RowBlocking& blocking) {
  Case c{.name = name,
         .codelet = &linear_forward_codelet(),
         .buffers = {reads(kTokens * kIn), reads_part(kPacked, {kBias}), writes(kTokens * kOut)},
         .submit =
             [blocking](rt::Submitter& s, const Handles& h) {
               submit_linear_forward(s, kTokens, h[0], h.matrix(blocking, 3), bias_in(h[1]), h[2],
                                     {});
             },
         .kernel = [blocking](const Memory& m) { forward_kernel(m, blocking, false); }};
  add_matrix(c.buffers, blocking, Access::kReads, blocking.rows);
  return c;
}

Case residual_forward() {
  Case c{.name = "linear_residual_forward",
         .codelet = &linear_residual_forward_codelet(),
         .buffers = {reads(kTokens * kIn), reads_part(kPacked, {kBias}), reads(kTokens * kOut),
                     writes(kTokens * kOut)},
         .submit =
             [](rt::Submitter& s, const Handles& h) {
               submit_linear_residual_forward(s, kTokens, h[0], h.matrix(kWeight, 4), bias_in(h[1]),
                                              h[2], h[3], {});
             },
         .kernel = [](const Memory& m) { forward_kernel(m, kWeight, true); }};
  add_matrix(c.buffers, kWeight, Access::kReads, kOut);
  return c;
}

Case backward_data() {
  Case c{.name = "linear_backward_data",
         .codelet = &linear_backward_data_codelet(),
         .buffers = {reads(kTokens * kOut), writes(kTokens * kIn)},
         .submit =
             [](rt::Submitter& s, const Handles& h) {
               submit_linear_backward_data(s, kTokens, h[0], h.matrix(kWeight, 2), h[1], {});
             },
         .kernel =
             [](const Memory& m) {
               const auto blocks = m.blocks<const float>(kWeight, 2);
               simd::dispatch([&]<simd::Isa kIsa>() {
                 linear_backward_data_cpu<kIsa>(kTokens, m.at<float>(0), {kWeight, blocks.data()},
                                                m.at<float>(1));
               });
             }};
  add_matrix(c.buffers, kWeight, Access::kReads, kOut);
  return c;
}

Case backward_weight(bool accumulate) {
  Case c{.name = accumulate ? "linear_accumulate_weight" : "linear_backward_weight",
         .codelet =
             accumulate ? &linear_accumulate_weight_codelet() : &linear_backward_weight_codelet(),
         .buffers = {reads(kRows.count * kOut), reads_part(kTokens * kIn, {rows_of_x()})},
         .submit = {},
         .kernel = {}};
  add_matrix(c.buffers, kWeight, accumulate ? Access::kUpdates : Access::kWrites, kOut);
  c.submit = [accumulate](rt::Submitter& s, const Handles& h) {
    submit_linear_backward_weight(s, kRows, h[0], h[1], accumulate, h.matrix(kWeight, 2), {});
  };
  c.kernel = [accumulate](const Memory& m) {
    for (Index b = 0; b < kWeight.count(); ++b) {
      const LinearWeightBlock block{.tokens = kRows.count,
                                    .in = kIn,
                                    .out = kOut,
                                    .first_row = kWeight.first_row(b),
                                    .rows = kWeight.rows_of(b)};
      simd::dispatch([&]<simd::Isa kIsa>() {
        linear_backward_weight_cpu<kIsa>(block, m.at<float>(0), m.at<float>(1) + rows_of_x().first,
                                         accumulate, m.at<float>(2 + b));
      });
    }
  };
  return c;
}

Case bias_backward(bool accumulate) {
  return {.name = accumulate ? "bias_accumulate" : "bias_backward",
          .codelet = &bias_backward_codelet(),
          .buffers = {reads(kTokens * kOut),
                      accumulate ? updates_part(kPacked, {kBias}) : writes_part(kPacked, {kBias})},
          .submit =
              [accumulate](rt::Submitter& s, const Handles& h) {
                submit_bias_backward(s, kTokens, kOut, h[0], accumulate, bias_in(h[1]), {});
              },
          .kernel =
              [accumulate](const Memory& m) {
                simd::dispatch([&]<simd::Isa kIsa>() {
                  bias_backward_cpu<kIsa>(kTokens, kOut, m.at<float>(0), accumulate,
                                          m.at<float>(1) + kBias.first);
                });
              }};
}

// The logits buffer has room for one row more than the task computes.
constexpr Index kLogits = (kRows.count + 1) * kOut;

Case logits_forward() {
  Case c{.name = "logits_forward",
         .codelet = &logits_forward_codelet(),
         .buffers = {reads_part(kTokens * kIn, {rows_of_x()}),
                     writes_part(kLogits, {{0, kRows.count * kOut}})},
         .submit =
             [](rt::Submitter& s, const Handles& h) {
               submit_logits_forward(s, kRows, h[0], h.matrix(kWeight, 2), h[1], {});
             },
         .kernel =
             [](const Memory& m) {
               const auto blocks = m.blocks<const float>(kWeight, 2);
               simd::dispatch([&]<simd::Isa kIsa>() {
                 linear_forward_cpu<kIsa>(kRows.count, m.at<float>(0) + rows_of_x().first,
                                          {kWeight, blocks.data()}, nullptr, nullptr,
                                          m.at<float>(1));
               });
             }};
  add_matrix(c.buffers, kWeight, Access::kReads, kOut);
  return c;
}

Case logits_backward_data() {
  Case c{.name = "logits_backward_data",
         .codelet = &logits_backward_data_codelet(),
         .buffers = {reads_part(kLogits, {{0, kRows.count * kOut}}),
                     writes_part(kTokens * kIn, {rows_of_x()})},
         .submit =
             [](rt::Submitter& s, const Handles& h) {
               submit_logits_backward_data(s, kRows, h[0], h.matrix(kWeight, 2), h[1], {});
             },
         .kernel =
             [](const Memory& m) {
               const auto blocks = m.blocks<const float>(kWeight, 2);
               simd::dispatch([&]<simd::Isa kIsa>() {
                 linear_backward_data_cpu<kIsa>(kRows.count, m.at<float>(0),
                                                {kWeight, blocks.data()},
                                                m.at<float>(1) + rows_of_x().first);
               });
             }};
  add_matrix(c.buffers, kWeight, Access::kReads, kOut);
  return c;
}

}  // namespace

std::vector<Case> linear_cases() {
  return {forward("linear_forward", kWeight),
          forward("linear_forward_many_blocks", kManyBlocks),
          residual_forward(),
          backward_data(),
          backward_weight(false),
          backward_weight(true),
          bias_backward(false),
          bias_backward(true),
          logits_forward(),
          logits_backward_data()};
}

}  // namespace dos::test
