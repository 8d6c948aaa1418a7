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
      .codelet = &gelu_forward_codelet(kTypeOf<T>),
      .buffers = {reads(kCount, Values::kUniform, kTypeOf<T>), writes(kCount, kTypeOf<T>)},
      .submit = [](rt::Submitter& s, const Handles& h) { submit_gelu_forward(s, h[0], h[1], {}); },
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
      .codelet = &gelu_backward_codelet(kTypeOf<T>),
      .buffers = {reads(kCount, Values::kUniform, kTypeOf<T>),
                  updates(kCount, Values::kUniform, kTypeOf<T>)},
      .submit = [](rt::Submitter& s, const Handles& h) { submit_gelu_backward(s, h[0], h[1], {}); },
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
      .codelet = &swiglu_forward_codelet(kTypeOf<T>),
      .buffers = {reads(2 * kGated, Values::kUniform, kTypeOf<T>), writes(kGated, kTypeOf<T>)},
      .submit = [](rt::Submitter& s,
                   const Handles& h) { submit_swiglu_forward(s, kSwiglu, h[0], h[1], {}); },
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
      .codelet = &swiglu_backward_codelet(kTypeOf<T>),
      .buffers = {reads(2 * kGated, Values::kUniform, kTypeOf<T>),
                  reads(kGated, Values::kUniform, kTypeOf<T>), writes(2 * kGated, kTypeOf<T>)},
      .submit = [](rt::Submitter& s,
                   const Handles& h) { submit_swiglu_backward(s, kSwiglu, h[0], h[1], h[2], {}); },
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
      .codelet = &fill_codelet(),
      .buffers = {writes_part(kCount, {{kPart.offset, kPart.count}})},
      .submit = [](rt::Submitter& s, const Handles& h) { submit_fill(s, h[0], kPart, kValue, {}); },
      .kernel =
          [](const Memory& m) { fill_cpu(kPart.count, kValue, m.at<float>(0) + kPart.offset); },
  };
}

Case init_normal() {
  static constexpr NormalInit kInit{
      .seed = 9, .stream = 4, .first_index = 1000, .deviation = 0.02F};
  return {
      .name = "init_normal",
      .codelet = &init_normal_codelet(),
      .buffers = {writes_part(kCount, {{kPart.offset, kPart.count}})},
      .submit = [](rt::Submitter& s,
                   const Handles& h) { submit_init_normal(s, h[0], kPart, kInit, {}); },
      .kernel =
          [](const Memory& m) {
            init_normal_cpu(kInit, kPart.count, m.at<float>(0) + kPart.offset);
          },
  };
}

Case round() {
  return {
      .name = "round",
      .codelet = &round_codelet(),
      .buffers = {reads(kCount), writes(kCount, DType::kBF16)},
      .submit = [](rt::Submitter& s, const Handles& h) { submit_round(s, h[0], h[1], {}); },
      .kernel = [](const Memory& m) { round_cpu(kCount, m.at<float>(0), m.at<BF16>(1)); },
  };
}

Case load_tokens() {
  static constexpr std::array<std::int32_t, 9> kValues{7, 0, -1, 50256, 3, 3, 2, 1, 128000};
  return {
      .name = "load_tokens",
      .codelet = &load_tokens_codelet(),
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
          init_normal(),
          round(),
          load_tokens()};
}

}  // namespace dos::test
