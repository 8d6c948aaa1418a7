// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "codelets/collect/collect.hpp"
#include "codelets/collect/collect_codelet.hpp"
#include "codelets/conformance/cases.hpp"

namespace dos::test {
namespace {

using namespace codelets;

constexpr Index kCount = 37;
constexpr Index kRoom = 50;  // what was received lies in a larger buffer

template <class T>
Case gradient(bool first) {
  return {.name = typed_name<T>(first ? "take_gradient" : "add_gradient"),
          .codelet = first ? &codelet_of<TakeGradient, T>() : &codelet_of<AddGradient, T>(),
          .buffers = {first ? writes(kCount) : updates(kCount),
                      reads_part(kRoom, {{0, kCount}}, kTypeOf<T>)},
          .submit =
              [first](rt::Submitter& s, const Handles& h) {
                first ? submit<TakeGradient>(s, {.sum = h[0], .x = h[1]}, {})
                      : submit<AddGradient>(s, {.sum = h[0], .x = h[1]}, {});
              },
          .kernel =
              [first](const Memory& m) {
                simd::dispatch([&]<simd::Isa kIsa>() {
                  add_gradient_cpu<kIsa>(kCount, first, m.at<const T>(1), m.at<float>(0));
                });
              }};
}

Case pack() {
  return {.name = "pack",
          .codelet = &codelet_of<Pack>(),
          .buffers = {writes(2, DType::kF64), reads(1, Values::kUniform, DType::kF64),
                      reads(1, Values::kUniform, DType::kF64)},
          .submit =
              [](rt::Submitter& s, const Handles& h) {
                submit<Pack>(s, {.packed = h[0], .scalars = std::array{&h[1], &h[2]}}, {});
              },
          .kernel =
              [](const Memory& m) {
                m.at<double>(0)[0] = *m.at<double>(1);
                m.at<double>(0)[1] = *m.at<double>(2);
              }};
}

Case unpack() {
  return {.name = "unpack",
          .codelet = &codelet_of<Unpack>(),
          .buffers = {reads(2, Values::kUniform, DType::kF64), writes(1, DType::kF64),
                      writes(1, DType::kF64)},
          .submit =
              [](rt::Submitter& s, const Handles& h) {
                submit<Unpack>(s, {.packed = h[0], .scalars = std::array{&h[1], &h[2]}}, {});
              },
          .kernel =
              [](const Memory& m) {
                *m.at<double>(1) = m.at<double>(0)[0];
                *m.at<double>(2) = m.at<double>(0)[1];
              }};
}

}  // namespace

std::vector<Case> collect_cases() {
  return {gradient<float>(true),
          gradient<BF16>(true),
          gradient<float>(false),
          gradient<BF16>(false),
          pack(),
          unpack()};
}

}  // namespace dos::test
