// SPDX-License-Identifier: Apache-2.0
#include "codelets/conformance/cases.hpp"
#include "codelets/layernorm/layernorm.hpp"
#include "codelets/layernorm/layernorm_codelet.hpp"

namespace dos::test {
namespace {

using namespace codelets;

constexpr NormShape kShape{.tokens = 5, .width = 19};
constexpr Index kElements = kShape.tokens * kShape.width;
constexpr Index kStatistics = 2 * kShape.tokens;

// Scale and shift lie in a handle that holds other small tensors before, between and behind them.
constexpr Index kPacked = 60;
constexpr Range kWeight{3, kShape.width};
constexpr Range kBias{30, kShape.width};

NormRef norm_in(const rt::Handle& handle) {
  return {.weight = {&handle, kWeight.first}, .bias = {&handle, kBias.first}};
}

template <class T>
Case forward() {
  return {
      .name = typed_name<T>("layernorm_forward"),
      .codelet = &codelet_of<LayerNormForward, T>(),
      .buffers = {reads(kElements, Values::kUniform, kTypeOf<T>),
                  reads_part(kPacked, {kWeight, kBias}, kTypeOf<T>), writes(kElements, kTypeOf<T>),
                  writes(kStatistics)},
      .submit =
          [](rt::Submitter& s, const Handles& h) {
            submit<LayerNormForward>(
                s, {.x = h[0], .norm = norm_in(h[1]), .y = h[2], .statistics = h[3]}, kShape, {});
          },
      .kernel =
          [](const Memory& m) {
            simd::dispatch([&]<simd::Isa kIsa>() {
              layernorm_forward_cpu<kIsa>(
                  kShape.tokens, kShape.width, m.at<const T>(0), m.at<const T>(1) + kWeight.first,
                  m.at<const T>(1) + kBias.first, m.at<T>(2), m.at<float>(3));
            });
          },
  };
}

template <class T>
Case backward() {
  return {
      .name = typed_name<T>("layernorm_backward"),
      .codelet = &codelet_of<LayerNormBackward, T>(),
      .buffers = {reads(kElements, Values::kUniform, kTypeOf<T>),
                  reads_part(kPacked, {kWeight}, kTypeOf<T>), reads(kStatistics, Values::kPositive),
                  reads(kElements, Values::kUniform, kTypeOf<T>),
                  reads(kElements, Values::kUniform, kTypeOf<T>), writes(kElements, kTypeOf<T>)},
      .submit =
          [](rt::Submitter& s, const Handles& h) {
            submit<LayerNormBackward>(s,
                                      {.x = h[0],
                                       .norm = norm_in(h[1]),
                                       .statistics = h[2],
                                       .dy = h[3],
                                       .residual = h[4],
                                       .dx = h[5]},
                                      kShape, {});
          },
      .kernel =
          [](const Memory& m) {
            simd::dispatch([&]<simd::Isa kIsa>() {
              layernorm_backward_cpu<kIsa>(kShape.tokens, kShape.width, m.at<const T>(0),
                                           m.at<const T>(1) + kWeight.first, m.at<float>(2),
                                           m.at<const T>(3), m.at<const T>(4), m.at<T>(5));
            });
          },
  };
}

template <class T>
Case backward_last() {
  return {
      .name = typed_name<T>("layernorm_backward_last"),
      .codelet = &codelet_of<LayerNormBackwardLast, T>(),
      .buffers = {reads(kElements, Values::kUniform, kTypeOf<T>),
                  reads_part(kPacked, {kWeight}, kTypeOf<T>), reads(kStatistics, Values::kPositive),
                  reads(kElements, Values::kUniform, kTypeOf<T>), writes(kElements, kTypeOf<T>)},
      .submit =
          [](rt::Submitter& s, const Handles& h) {
            submit<LayerNormBackwardLast>(
                s, {.x = h[0], .norm = norm_in(h[1]), .statistics = h[2], .dy = h[3], .dx = h[4]},
                kShape, {});
          },
      .kernel =
          [](const Memory& m) {
            simd::dispatch([&]<simd::Isa kIsa>() {
              layernorm_backward_cpu<kIsa>(kShape.tokens, kShape.width, m.at<const T>(0),
                                           m.at<const T>(1) + kWeight.first, m.at<float>(2),
                                           m.at<const T>(3), nullptr, m.at<T>(4));
            });
          },
  };
}

template <class T, class G>
Case backward_weight(bool accumulate) {
  return {
      .name = typed_name<T, G>(accumulate ? "layernorm_accumulate_weight"
                                          : "layernorm_backward_weight"),
      .codelet = &codelet_of<LayerNormBackwardWeight, T, G>(),
      .buffers = {reads(kElements, Values::kUniform, kTypeOf<T>),
                  reads(kStatistics, Values::kPositive),
                  reads(kElements, Values::kUniform, kTypeOf<T>),
                  accumulate ? updates_part(kPacked, {kWeight, kBias}, kTypeOf<G>)
                             : writes_part(kPacked, {kWeight, kBias}, kTypeOf<G>)},
      .submit =
          [accumulate](rt::Submitter& s, const Handles& h) {
            submit<LayerNormBackwardWeight>(
                s, {.x = h[0], .statistics = h[1], .dy = h[2], .dnorm = norm_in(h[3])},
                {kShape, accumulate}, {});
          },
      .kernel =
          [accumulate](const Memory& m) {
            simd::dispatch([&]<simd::Isa kIsa>() {
              layernorm_backward_weight_cpu<kIsa>(
                  kShape.tokens, kShape.width, m.at<const T>(0), m.at<float>(1), m.at<const T>(2),
                  accumulate, m.at<G>(3) + kWeight.first, m.at<G>(3) + kBias.first);
            });
          },
  };
}

}  // namespace

std::vector<Case> layernorm_cases() {
  std::vector<Case> cases{forward<float>(), backward<float>(), backward_last<float>(),
                          forward<BF16>(),  backward<BF16>(),  backward_last<BF16>()};
  add_gradient_cases(cases, []<class T, class G>() {
    return std::vector<Case>{backward_weight<T, G>(false), backward_weight<T, G>(true)};
  });
  return cases;
}

}  // namespace dos::test
