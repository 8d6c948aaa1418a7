// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "codelets/conformance/cases.hpp"
#include "codelets/gelu/gelu.hpp"
#include "codelets/gelu/gelu_codelet.hpp"
#include "codelets/init/init_codelet.hpp"
#include "codelets/swiglu/swiglu.hpp"
#include "codelets/swiglu/swiglu_codelet.hpp"
#include "codelets/tokens/tokens_codelet.hpp"

namespace dos::test {
namespace {

using namespace codelets;

constexpr Index kCount = 37;  // two vectors of 16 and a rest
constexpr SwigluShape kSwiglu{3, kCount};
constexpr Index kGated = kSwiglu.tokens * kSwiglu.hidden;
constexpr HandleRange kPart{.offset = 3, .count = 21};

template <class T>
Case gelu_forward() {
  return {
      .name = typed_name<T>("gelu_forward"),
      .codelet = &codelet_of<GeluForward, T>(),
      .buffers = {reads(kCount, Values::kUniform, kTypeOf<T>), writes(kCount, kTypeOf<T>)},
      .submit = [](rt::Submitter& s,
                   const Handles& h) { submit<GeluForward>(s, {.x = h[0], .y = h[1]}, {}); },
      .kernel =
          [](const Memory& m) {
            simd::dispatch([&]<simd::Isa kIsa>() {
              gelu_forward_cpu<kIsa>(kCount, m.at<const T>(0), m.at<T>(1));
            });
          },
  };
}

template <class T>
Case gelu_backward() {
  return {
      .name = typed_name<T>("gelu_backward"),
      .codelet = &codelet_of<GeluBackward, T>(),
      .buffers = {reads(kCount, Values::kUniform, kTypeOf<T>),
                  updates(kCount, Values::kUniform, kTypeOf<T>)},
      .submit = [](rt::Submitter& s,
                   const Handles& h) { submit<GeluBackward>(s, {.x = h[0], .dy = h[1]}, {}); },
      .kernel =
          [](const Memory& m) {
            simd::dispatch([&]<simd::Isa kIsa>() {
              gelu_backward_cpu<kIsa>(kCount, m.at<const T>(0), m.at<T>(1));
            });
          },
  };
}

template <class T>
Case swiglu_forward() {
  return {
      .name = typed_name<T>("swiglu_forward"),
      .codelet = &codelet_of<SwigluForward, T>(),
      .buffers = {reads(2 * kGated, Values::kUniform, kTypeOf<T>), writes(kGated, kTypeOf<T>)},
      .submit =
          [](rt::Submitter& s, const Handles& h) {
            submit<SwigluForward>(s, {.x = h[0], .out = h[1]}, kSwiglu, {});
          },
      .kernel =
          [](const Memory& m) {
            simd::dispatch([&]<simd::Isa kIsa>() {
              swiglu_forward_cpu<kIsa>(kSwiglu, m.at<const T>(0), m.at<T>(1));
            });
          },
  };
}

template <class T>
Case swiglu_backward() {
  return {
      .name = typed_name<T>("swiglu_backward"),
      .codelet = &codelet_of<SwigluBackward, T>(),
      .buffers = {reads(2 * kGated, Values::kUniform, kTypeOf<T>),
                  reads(kGated, Values::kUniform, kTypeOf<T>), writes(2 * kGated, kTypeOf<T>)},
      .submit =
          [](rt::Submitter& s, const Handles& h) {
            submit<SwigluBackward>(s, {.x = h[0], .dout = h[1], .dx = h[2]}, kSwiglu, {});
          },
      .kernel =
          [](const Memory& m) {
            simd::dispatch([&]<simd::Isa kIsa>() {
              swiglu_backward_cpu<kIsa>(kSwiglu, m.at<const T>(0), m.at<const T>(1), m.at<T>(2));
            });
          },
  };
}

Case fill() {
  static constexpr float kValue = -2.5F;
  return {
      .name = "fill",
      .codelet = &codelet_of<Fill>(),
      .buffers = {writes_part(kCount, {{kPart.offset, kPart.count}})},
      .submit =
          [](rt::Submitter& s, const Handles& h) {
            submit<Fill>(s, {.out = h[0]}, {kPart, kValue}, {});
          },
      .kernel =
          [](const Memory& m) { fill_cpu(kPart.count, kValue, m.at<float>(0) + kPart.offset); },
  };
}

Case init_random() {
  static constexpr RandomInit kInit{.seed = 9, .stream = 4, .first_index = 1000, .spread = 0.02F};
  return {
      .name = "init_random",
      .codelet = &codelet_of<InitRandom>(),
      .buffers = {writes_part(kCount, {{kPart.offset, kPart.count}})},
      .submit =
          [](rt::Submitter& s, const Handles& h) {
            submit<InitRandom>(s, {.out = h[0]}, {kPart, kInit}, {});
          },
      .kernel =
          [](const Memory& m) {
            init_random_cpu(kInit, kPart.count, m.at<float>(0) + kPart.offset);
          },
  };
}

Case round() {
  return {
      .name = "round",
      .codelet = &codelet_of<Round>(),
      .buffers = {reads(kCount), writes(kCount, DType::kBF16)},
      .submit = [](rt::Submitter& s,
                   const Handles& h) { submit<Round>(s, {.x = h[0], .out = h[1]}, {}); },
      .kernel = [](const Memory& m) { round_cpu(kCount, m.at<float>(0), m.at<BF16>(1)); },
  };
}

Case load_tokens() {
  static constexpr std::array<std::int32_t, 9> kValues{7, 0, -1, 50256, 3, 3, 2, 1, 128000};
  return {
      .name = "load_tokens",
      .codelet = &codelet_of<LoadTokens>(),
      .buffers = {writes(std::ssize(kValues), DType::kI32)},
      .submit = [](rt::Submitter& s,
                   const Handles& h) { submit_load_tokens(s, kValues, h[0], {}); },
      .kernel = [](const Memory& m) { std::ranges::copy(kValues, m.at<std::int32_t>(0)); },
  };
}

}  // namespace

std::vector<Case> elementwise_cases() {
  return {gelu_forward<float>(),
          gelu_backward<float>(),
          gelu_forward<BF16>(),
          gelu_backward<BF16>(),
          swiglu_forward<float>(),
          swiglu_backward<float>(),
          swiglu_forward<BF16>(),
          swiglu_backward<BF16>(),
          fill(),
          init_random(),
          round(),
          load_tokens()};
}

}  // namespace dos::test
