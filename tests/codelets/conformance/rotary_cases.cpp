// SPDX-License-Identifier: Apache-2.0
#include "codelets/conformance/cases.hpp"
#include "codelets/rotary/rotary_codelet.hpp"

namespace dos::test {
namespace {

using namespace codelets;

constexpr RotaryShape kShape{.sequences = 2,
                             .tokens = 3,
                             .heads = 2,
                             .head_size = 6,
                             .stride = 17,
                             .speed = {1e4, 8, 1, 4, 64},
                             .back = false};

template <class T>
Case turned(bool back) {
  constexpr Index kRows = kShape.sequences * kShape.tokens;
  std::vector<Range> heads;
  for (Index row = 0; row < kRows; ++row)
    heads.push_back({row * kShape.stride, kShape.heads * kShape.head_size});
  RotaryShape shape = kShape;
  shape.back = back;
  return {
      .name = typed_name<T>(back ? "rotary_back" : "rotary"),
      .codelet = &codelet_of<Rotary, T>(),
      .buffers = {updates_part(kRows * kShape.stride, heads, kTypeOf<T>)},
      .submit = [shape](rt::Submitter& s,
                        const Handles& h) { submit<Rotary>(s, {.x = h[0]}, shape, {}); },
      .kernel =
          [shape](const Memory& m) {
            simd::dispatch([&]<simd::Isa kIsa>() { rotary_cpu<kIsa>(shape, m.at<T>(0)); });
          },
  };
}

/// The last rows of a sequence in a buffer with room for more.
template <class T>
Case turned_later() {
  RotaryShape shape = kShape;
  shape.sequences = 1;
  shape.first = 2;
  std::vector<Range> heads;
  for (Index row = shape.first; row < shape.first + shape.tokens; ++row)
    heads.push_back({row * shape.stride, shape.heads * shape.head_size});
  return {
      .name = typed_name<T>("rotary_later"),
      .codelet = &codelet_of<Rotary, T>(),
      .buffers = {updates_part((shape.first + shape.tokens + 1) * shape.stride, heads, kTypeOf<T>)},
      .submit = [shape](rt::Submitter& s,
                        const Handles& h) { submit<Rotary>(s, {.x = h[0]}, shape, {}); },
      .kernel =
          [shape](const Memory& m) {
            simd::dispatch([&]<simd::Isa kIsa>() {
              rotary_cpu<kIsa>(shape, m.at<T>(0) + shape.first * shape.stride);
            });
          },
  };
}

}  // namespace

std::vector<Case> rotary_cases() {
  return {turned<float>(false), turned<float>(true), turned_later<float>(),
          turned<BF16>(false),  turned<BF16>(true),  turned_later<BF16>()};
}

}  // namespace dos::test
