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

// The logits buffer has room for one row more than the task computes; its rows lie apart.
constexpr Index kStride = kOut + 4;
constexpr Index kLogits = (kRows.count + 1) * kStride;
std::vector<Range> logits_used() {
  std::vector<Range> rows;
  for (Index row = 0; row < kRows.count; ++row) rows.push_back({row * kStride, kOut});
  return rows;
}

SliceRef bias_in(const rt::Handle& handle) {
  return {&handle, kBias.first};
}

/// y = x w^T + bias [+ residual]. Buffers: x, bias, [residual,] y, then the weight.
template <class T>
void forward_kernel(const Memory& m, const RowBlocking& blocking, bool residual) {
  const auto blocks = m.blocks<const T>(blocking, residual ? 4 : 3);
  simd::dispatch([&]<simd::Isa kIsa>() {
    linear_forward_cpu<kIsa>(kTokens, m.at<const T>(0), RowBlocks<const T>{blocking, blocks.data()},
                             m.at<const T>(1) + kBias.first, residual ? m.at<const T>(2) : nullptr,
                             m.at<T>(residual ? 3 : 2), kOut);
  });
}

template <class T>
Case forward(const char* name, const RowBlocking& blocking) {
  Case c{.name = typed_name<T>(name),
         .codelet = &codelet_of<LinearForward, T>(),
         .buffers = {reads(kTokens * kIn, Values::kUniform, kTypeOf<T>),
                     reads_part(kPacked, {kBias}, kTypeOf<T>), writes(kTokens * kOut, kTypeOf<T>)},
         .submit =
             [blocking](rt::Submitter& s, const Handles& h) {
               submit<LinearForward>(
                   s, {.x = h[0], .bias = bias_in(h[1]), .y = h[2], .w = h.matrix(blocking, 3)},
                   {kTokens}, {});
             },
         .kernel = [blocking](const Memory& m) { forward_kernel<T>(m, blocking, false); }};
  add_matrix(c.buffers, blocking, Access::kReads, blocking.rows, kTypeOf<T>);
  return c;
}

constexpr RowRange kLaterRows{.first = 2, .count = kTokens};

/// y[rows] = x w^T [+ bias], in a y of more rows. Buffers: x, [bias,] y, then the weight.
template <class T>
Case forward_rows(bool has_bias) {
  const Index y = has_bias ? 2 : 1;
  Case c{.name = typed_name<T>(has_bias ? "linear_forward_rows" : "product_forward_rows"),
         .codelet =
             has_bias ? &codelet_of<LinearForwardRows, T>() : &codelet_of<ProductForwardRows, T>(),
         .buffers = {reads(kTokens * kIn, Values::kUniform, kTypeOf<T>)},
         .submit =
             [=](rt::Submitter& s, const Handles& h) {
               const MatrixRef w = h.matrix(kWeight, y + 1);
               if (has_bias)
                 submit<LinearForwardRows>(s, {.x = h[0], .bias = bias_in(h[1]), .y = h[2], .w = w},
                                           kLaterRows, {});
               else
                 submit<ProductForwardRows>(s, {.x = h[0], .y = h[1], .w = w}, kLaterRows, {});
             },
         .kernel =
             [=](const Memory& m) {
               const auto blocks = m.blocks<const T>(kWeight, y + 1);
               simd::dispatch([&]<simd::Isa kIsa>() {
                 linear_forward_cpu<kIsa>(kTokens, m.at<const T>(0),
                                          RowBlocks<const T>{kWeight, blocks.data()},
                                          has_bias ? m.at<const T>(1) + kBias.first : nullptr,
                                          nullptr, m.at<T>(y) + kLaterRows.first * kOut, kOut);
               });
             }};
  if (has_bias) c.buffers.push_back(reads_part(kPacked, {kBias}, kTypeOf<T>));
  c.buffers.push_back(writes_part((kLaterRows.first + kTokens + 1) * kOut,
                                  {{kLaterRows.first * kOut, kTokens * kOut}}, kTypeOf<T>));
  add_matrix(c.buffers, kWeight, Access::kReads, kOut, kTypeOf<T>);
  return c;
}

template <class T>
Case residual_forward() {
  Case c{.name = typed_name<T>("linear_residual_forward"),
         .codelet = &codelet_of<LinearResidualForward, T>(),
         .buffers = {reads(kTokens * kIn, Values::kUniform, kTypeOf<T>),
                     reads_part(kPacked, {kBias}, kTypeOf<T>),
                     reads(kTokens * kOut, Values::kUniform, kTypeOf<T>),
                     writes(kTokens * kOut, kTypeOf<T>)},
         .submit =
             [](rt::Submitter& s, const Handles& h) {
               submit<LinearResidualForward>(s,
                                             {.x = h[0],
                                              .bias = bias_in(h[1]),
                                              .residual = h[2],
                                              .y = h[3],
                                              .w = h.matrix(kWeight, 4)},
                                             {kTokens}, {});
             },
         .kernel = [](const Memory& m) { forward_kernel<T>(m, kWeight, true); }};
  add_matrix(c.buffers, kWeight, Access::kReads, kOut, kTypeOf<T>);
  return c;
}

constexpr float kScale = 1.75F;

/// y = scale x w^T, or y = x w^T + residual.
template <class T>
Case product(bool residual) {
  const Index weight = residual ? 3 : 2;
  Case c{.name = typed_name<T>(residual ? "product_residual_forward" : "product_forward"),
         .codelet =
             residual ? &codelet_of<ProductResidualForward, T>() : &codelet_of<ProductForward, T>(),
         .buffers = {reads(kTokens * kIn, Values::kUniform, kTypeOf<T>)},
         .submit =
             [=](rt::Submitter& s, const Handles& h) {
               const MatrixRef w = h.matrix(kWeight, weight);
               if (residual)
                 submit<ProductResidualForward>(s, {.x = h[0], .residual = h[1], .y = h[2], .w = w},
                                                {kTokens}, {});
               else
                 submit<ProductForward>(s, {.x = h[0], .y = h[1], .w = w}, {{kTokens}, kScale}, {});
             },
         .kernel =
             [=](const Memory& m) {
               const auto blocks = m.blocks<const T>(kWeight, weight);
               simd::dispatch([&]<simd::Isa kIsa>() {
                 linear_forward_cpu<kIsa>(kTokens, m.at<const T>(0),
                                          RowBlocks<const T>{kWeight, blocks.data()}, nullptr,
                                          residual ? m.at<const T>(1) : nullptr,
                                          m.at<T>(weight - 1), kOut, residual ? 1 : kScale);
               });
             }};
  if (residual) c.buffers.push_back(reads(kTokens * kOut, Values::kUniform, kTypeOf<T>));
  c.buffers.push_back(writes(kTokens * kOut, kTypeOf<T>));
  add_matrix(c.buffers, kWeight, Access::kReads, kOut, kTypeOf<T>);
  return c;
}

/// dx (+)= dy w.
template <class T>
Case backward_data(bool accumulate) {
  Case c{.name = typed_name<T>(accumulate ? "linear_add_backward_data" : "linear_backward_data"),
         .codelet = accumulate ? &codelet_of<LinearAddBackwardData, T>()
                               : &codelet_of<LinearBackwardData, T>(),
         .buffers = {reads(kTokens * kOut, Values::kUniform, kTypeOf<T>),
                     accumulate ? updates(kTokens * kIn, Values::kUniform, kTypeOf<T>)
                                : writes(kTokens * kIn, kTypeOf<T>)},
         .submit =
             [accumulate](rt::Submitter& s, const Handles& h) {
               const MatrixRef w = h.matrix(kWeight, 2);
               if (accumulate)
                 submit<LinearAddBackwardData>(s, {.dy = h[0], .dx = h[1], .w = w}, {kTokens}, {});
               else
                 submit<LinearBackwardData>(s, {.dy = h[0], .dx = h[1], .w = w}, {kTokens}, {});
             },
         .kernel =
             [accumulate](const Memory& m) {
               const auto blocks = m.blocks<const T>(kWeight, 2);
               simd::dispatch([&]<simd::Isa kIsa>() {
                 linear_backward_part_cpu<kIsa>({kTokens, 0, kOut, kIn, kOut}, m.at<const T>(0),
                                                RowBlocks<const T>{kWeight, blocks.data()},
                                                {.accumulate = accumulate}, m.at<T>(1));
               });
             }};
  add_matrix(c.buffers, kWeight, Access::kReads, kOut, kTypeOf<T>);
  return c;
}

template <class T, class G>
Case backward_weight(bool accumulate) {
  Case c{
      .name = typed_name<T, G>(accumulate ? "linear_accumulate_weight" : "linear_backward_weight"),
      .codelet = accumulate ? &codelet_of<LinearAccumulateWeight, T, G>()
                            : &codelet_of<LinearBackwardWeight, T, G>(),
      .buffers = {reads_part(kLogits, logits_used(), kTypeOf<T>),
                  reads_part(kTokens * kIn, {rows_of_x()}, kTypeOf<T>)},
      .submit = {},
      .kernel = {}};
  add_matrix(c.buffers, kWeight, accumulate ? Access::kUpdates : Access::kWrites, kOut, kTypeOf<G>);
  c.submit = [accumulate](rt::Submitter& s, const Handles& h) {
    submit_linear_weight(s, accumulate, {.dy = h[0], .x = h[1], .dw = h.matrix(kWeight, 2)},
                         {kRows, kStride}, {});
  };
  c.kernel = [accumulate](const Memory& m) {
    for (Index b = 0; b < kWeight.count(); ++b) {
      const LinearWeightBlock block{.tokens = kRows.count,
                                    .in = kIn,
                                    .dy_stride = kStride,
                                    .first_row = kWeight.first_row(b),
                                    .rows = kWeight.rows_of(b),
                                    .x_stride = kIn};
      simd::dispatch([&]<simd::Isa kIsa>() {
        linear_backward_weight_cpu<kIsa>(block, m.at<const T>(0),
                                         m.at<const T>(1) + rows_of_x().first, accumulate,
                                         m.at<G>(2 + b));
      });
    }
  };
  return c;
}

template <class T, class G>
Case bias_backward(bool accumulate) {
  return {.name = typed_name<T, G>(accumulate ? "bias_accumulate" : "bias_backward"),
          .codelet = &codelet_of<BiasBackward, T, G>(),
          .buffers = {reads(kTokens * kOut, Values::kUniform, kTypeOf<T>),
                      accumulate ? updates_part(kPacked, {kBias}, kTypeOf<G>)
                                 : writes_part(kPacked, {kBias}, kTypeOf<G>)},
          .submit =
              [accumulate](rt::Submitter& s, const Handles& h) {
                submit<BiasBackward>(s, {.dy = h[0], .dbias = bias_in(h[1])},
                                     {kTokens, kOut, accumulate}, {});
              },
          .kernel =
              [accumulate](const Memory& m) {
                simd::dispatch([&]<simd::Isa kIsa>() {
                  bias_backward_cpu<kIsa>(kTokens, kOut, m.at<const T>(0), accumulate,
                                          m.at<G>(1) + kBias.first);
                });
              }};
}

template <class T>
Case logits_forward() {
  Case c{.name = typed_name<T>("logits_forward"),
         .codelet = &codelet_of<LogitsForward, T>(),
         .buffers = {reads_part(kTokens * kIn, {rows_of_x()}, kTypeOf<T>),
                     writes_part(kLogits, logits_used(), kTypeOf<T>)},
         .submit =
             [](rt::Submitter& s, const Handles& h) {
               submit<LogitsForward>(s, {.x = h[0], .logits = h[1], .w = h.matrix(kWeight, 2)},
                                     {kRows, kStride}, {});
             },
         .kernel =
             [](const Memory& m) {
               const auto blocks = m.blocks<const T>(kWeight, 2);
               simd::dispatch([&]<simd::Isa kIsa>() {
                 linear_forward_cpu<kIsa>(kRows.count, m.at<const T>(0) + rows_of_x().first,
                                          {kWeight, blocks.data()}, nullptr, nullptr, m.at<T>(1),
                                          kStride);
               });
             }};
  add_matrix(c.buffers, kWeight, Access::kReads, kOut, kTypeOf<T>);
  return c;
}

template <class T>
Case logits_backward_data() {
  Case c{.name = typed_name<T>("logits_backward_data"),
         .codelet = &codelet_of<LogitsBackwardData, T>(),
         .buffers = {reads_part(kLogits, logits_used(), kTypeOf<T>),
                     writes_part(kTokens * kIn, {rows_of_x()}, kTypeOf<T>)},
         .submit =
             [](rt::Submitter& s, const Handles& h) {
               submit<LogitsBackwardData>(s,
                                          {.dlogits = h[0], .dx = h[1], .w = h.matrix(kWeight, 2)},
                                          {kRows, kStride}, {});
             },
         .kernel =
             [](const Memory& m) {
               const auto blocks = m.blocks<const T>(kWeight, 2);
               simd::dispatch([&]<simd::Isa kIsa>() {
                 linear_backward_data_cpu<kIsa>(kRows.count, m.at<const T>(0), kStride,
                                                {kWeight, blocks.data()},
                                                m.at<T>(1) + rows_of_x().first);
               });
             }};
  add_matrix(c.buffers, kWeight, Access::kReads, kOut, kTypeOf<T>);
  return c;
}

}  // namespace

std::vector<Case> linear_cases() {
  std::vector<Case> cases;
  const auto add = [&]<class T>() {
    for (const Case& c :
         std::vector<Case>{forward<T>("linear_forward", kWeight),
                           forward<T>("linear_forward_many_blocks", kManyBlocks),
                           forward_rows<T>(true), forward_rows<T>(false), residual_forward<T>(),
                           product<T>(false), product<T>(true), backward_data<T>(false),
                           backward_data<T>(true), logits_forward<T>(), logits_backward_data<T>()})
      cases.push_back(c);
  };
  add.operator()<float>();
  add.operator()<BF16>();
  add_gradient_cases(cases, []<class T, class G>() {
    return std::vector<Case>{backward_weight<T, G>(false), backward_weight<T, G>(true),
                             bias_backward<T, G>(false), bias_backward<T, G>(true)};
  });
  return cases;
}

}  // namespace dos::test
