// SPDX-License-Identifier: Apache-2.0
#include "codelets/conformance/cases.hpp"
#include "codelets/rmsnorm/rmsnorm_codelet.hpp"

namespace dos::test {
namespace {

using namespace codelets;

constexpr RmsNormShape kShape{.tokens = 5, .width = 19, .epsilon = 1e-5F};
constexpr Index kElements = kShape.tokens * kShape.width;

// Two heads of queries and one of keys, then something else, in each row of qkv.
constexpr RmsNormShape kHeads{.tokens = 4,
                              .width = 6,
                              .epsilon = 1e-5F,
                              .vectors = 3,
                              .first = 2,
                              .x_stride = 0,
                              .y_stride = 25};
constexpr Index kOfHeads = kHeads.tokens * kHeads.row();
constexpr Index kRows = kHeads.tokens * kHeads.y_stride;

// The scale lies in a handle that holds other small tensors before and behind it.
constexpr Index kPacked = 40;
constexpr Range kWeight{3, kShape.width};
constexpr Range kHeadWeight{5, 2 * kHeads.width};

SliceRef weight_in(const rt::Handle& handle, const Range& range) {
  return {&handle, range.first};
}

template <class T>
Case forward() {
  return {
      .name = typed_name<T>("rmsnorm_forward"),
      .codelet = &codelet_of<RmsNormForward, T>(),
      .buffers = {reads(kElements, Values::kUniform, kTypeOf<T>),
                  reads_part(kPacked, {kWeight}, kTypeOf<T>), writes(kElements, kTypeOf<T>),
                  writes(kShape.tokens)},
      .submit =
          [](rt::Submitter& s, const Handles& h) {
            submit<RmsNormForward>(
                s, {.x = h[0], .weight = weight_in(h[1], kWeight), .y = h[2], .statistics = h[3]},
                kShape, {});
          },
      .kernel =
          [](const Memory& m) {
            simd::dispatch([&]<simd::Isa kIsa>() {
              rmsnorm_forward_cpu<kIsa>(kShape, m.at<const T>(0), m.at<const T>(1) + kWeight.first,
                                        m.at<T>(2), m.at<float>(3));
            });
          },
  };
}

/// x, weight, statistics, dy, [residual,] dx.
template <class T>
Case backward(bool residual) {
  Case c{.name = typed_name<T>(residual ? "rmsnorm_backward" : "rmsnorm_backward_last"),
         .codelet =
             residual ? &codelet_of<RmsNormBackward, T>() : &codelet_of<RmsNormBackwardLast, T>(),
         .buffers = {reads(kElements, Values::kUniform, kTypeOf<T>),
                     reads_part(kPacked, {kWeight}, kTypeOf<T>),
                     reads(kShape.tokens, Values::kPositive),
                     reads(kElements, Values::kUniform, kTypeOf<T>)},
         .submit =
             [residual](rt::Submitter& s, const Handles& h) {
               const SliceRef weight = weight_in(h[1], kWeight);
               if (residual)
                 submit<RmsNormBackward>(s,
                                         {.x = h[0],
                                          .weight = weight,
                                          .statistics = h[2],
                                          .dy = h[3],
                                          .residual = h[4],
                                          .dx = h[5]},
                                         kShape, {});
               else
                 submit<RmsNormBackwardLast>(
                     s, {.x = h[0], .weight = weight, .statistics = h[2], .dy = h[3], .dx = h[4]},
                     kShape, {});
             },
         .kernel =
             [residual](const Memory& m) {
               simd::dispatch([&]<simd::Isa kIsa>() {
                 rmsnorm_backward_cpu<kIsa>(kShape, m.at<const T>(0),
                                            m.at<const T>(1) + kWeight.first, m.at<float>(2),
                                            m.at<const T>(3), residual ? m.at<const T>(4) : nullptr,
                                            m.at<T>(residual ? 5 : 4));
               });
             }};
  if (residual) c.buffers.push_back(reads(kElements, Values::kUniform, kTypeOf<T>));
  c.buffers.push_back(writes(kElements, kTypeOf<T>));
  return c;
}

template <class T, class G>
Case backward_weight(bool accumulate) {
  return {
      .name =
          typed_name<T, G>(accumulate ? "rmsnorm_accumulate_weight" : "rmsnorm_backward_weight"),
      .codelet = &codelet_of<RmsNormBackwardWeight, T, G>(),
      .buffers = {reads(kElements, Values::kUniform, kTypeOf<T>),
                  reads(kShape.tokens, Values::kPositive),
                  reads(kElements, Values::kUniform, kTypeOf<T>),
                  accumulate ? updates_part(kPacked, {kWeight}, kTypeOf<G>)
                             : writes_part(kPacked, {kWeight}, kTypeOf<G>)},
      .submit =
          [accumulate](rt::Submitter& s, const Handles& h) {
            submit<RmsNormBackwardWeight>(
                s, {.x = h[0], .statistics = h[1], .dy = h[2], .dweight = weight_in(h[3], kWeight)},
                {kShape, accumulate}, {});
          },
      .kernel =
          [accumulate](const Memory& m) {
            simd::dispatch([&]<simd::Isa kIsa>() {
              rmsnorm_backward_weight_cpu<kIsa>(kShape, m.at<const T>(0), m.at<float>(1),
                                                m.at<const T>(2), accumulate,
                                                m.at<G>(3) + kWeight.first);
            });
          },
  };
}

/// The heads in a buffer of rows.
std::vector<Range> heads_of_rows() {
  std::vector<Range> parts;
  for (Index t = 0; t < kHeads.tokens; ++t) parts.push_back({t * kHeads.y_stride, kHeads.row()});
  return parts;
}

template <class T>
Case head_forward() {
  return {
      .name = typed_name<T>("head_norm_forward"),
      .codelet = &codelet_of<HeadNormForward, T>(),
      .buffers = {updates_part(kRows, heads_of_rows(), kTypeOf<T>),
                  reads_part(kPacked, {kHeadWeight}, kTypeOf<T>), writes(kOfHeads, kTypeOf<T>),
                  writes(kHeads.tokens * kHeads.vectors)},
      .submit =
          [](rt::Submitter& s, const Handles& h) {
            submit<HeadNormForward>(s,
                                    {.qkv = h[0],
                                     .weight = weight_in(h[1], kHeadWeight),
                                     .heads = h[2],
                                     .statistics = h[3]},
                                    {kHeads, 0}, {});
          },
      .kernel =
          [](const Memory& m) {
            simd::dispatch([&]<simd::Isa kIsa>() {
              copy_vectors_cpu<kIsa>(kHeads, m.at<const T>(0), m.at<T>(2));
              rmsnorm_forward_cpu<kIsa>(kHeads, m.at<const T>(2),
                                        m.at<const T>(1) + kHeadWeight.first, m.at<T>(0),
                                        m.at<float>(3));
            });
          },
  };
}

template <class T, class G>
Case head_backward(bool accumulate) {
  return {
      .name = typed_name<T, G>(accumulate ? "head_norm_backward_accumulate" : "head_norm_backward"),
      .codelet = &codelet_of<HeadNormBackward, T, G>(),
      .buffers = {reads(kOfHeads, Values::kUniform, kTypeOf<T>),
                  reads_part(kPacked, {kHeadWeight}, kTypeOf<T>),
                  reads(kHeads.tokens * kHeads.vectors, Values::kPositive),
                  updates_part(kRows, heads_of_rows(), kTypeOf<T>),
                  accumulate ? updates_part(kPacked, {kHeadWeight}, kTypeOf<G>)
                             : writes_part(kPacked, {kHeadWeight}, kTypeOf<G>)},
      .submit =
          [accumulate](rt::Submitter& s, const Handles& h) {
            submit<HeadNormBackward>(s,
                                     {.heads = h[0],
                                      .weight = weight_in(h[1], kHeadWeight),
                                      .statistics = h[2],
                                      .dqkv = h[3],
                                      .dweight = weight_in(h[4], kHeadWeight)},
                                     {kHeads, accumulate}, {});
          },
      .kernel =
          [accumulate](const Memory& m) {
            simd::dispatch([&]<simd::Isa kIsa>() {
              rmsnorm_backward_weight_cpu<kIsa>(kHeads, m.at<const T>(0), m.at<float>(2),
                                                m.at<const T>(3), accumulate,
                                                m.at<G>(4) + kHeadWeight.first);
              rmsnorm_backward_cpu<kIsa>(kHeads, m.at<const T>(0),
                                         m.at<const T>(1) + kHeadWeight.first, m.at<float>(2),
                                         m.at<const T>(3), nullptr, m.at<T>(3));
            });
          },
  };
}

template <class T>
Case head_backward_data() {
  return {
      .name = typed_name<T>("head_norm_backward_data"),
      .codelet = &codelet_of<HeadNormBackwardData, T>(),
      .buffers = {reads(kOfHeads, Values::kUniform, kTypeOf<T>),
                  reads_part(kPacked, {kHeadWeight}, kTypeOf<T>),
                  reads(kHeads.tokens * kHeads.vectors, Values::kPositive),
                  updates_part(kRows, heads_of_rows(), kTypeOf<T>)},
      .submit =
          [](rt::Submitter& s, const Handles& h) {
            submit<HeadNormBackwardData>(s,
                                         {.heads = h[0],
                                          .weight = weight_in(h[1], kHeadWeight),
                                          .statistics = h[2],
                                          .dqkv = h[3]},
                                         kHeads, {});
          },
      .kernel =
          [](const Memory& m) {
            simd::dispatch([&]<simd::Isa kIsa>() {
              rmsnorm_backward_cpu<kIsa>(kHeads, m.at<const T>(0),
                                         m.at<const T>(1) + kHeadWeight.first, m.at<float>(2),
                                         m.at<const T>(3), nullptr, m.at<T>(3));
            });
          },
  };
}

}  // namespace

std::vector<Case> rmsnorm_cases() {
  std::vector<Case> cases;
  const auto add = [&]<class T>() {
    for (const Case& c : std::vector<Case>{forward<T>(), backward<T>(true), backward<T>(false),
                                           head_forward<T>(), head_backward_data<T>()})
      cases.push_back(c);
  };
  add.operator()<float>();
  add.operator()<BF16>();
  add_gradient_cases(cases, []<class T, class G>() {
    return std::vector<Case>{backward_weight<T, G>(false), backward_weight<T, G>(true),
                             head_backward<T, G>(false), head_backward<T, G>(true)};
  });
  return cases;
}

}  // namespace dos::test
