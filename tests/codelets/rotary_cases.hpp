// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "codelets/kernel_test.hpp"
#include "codelets/rotary/rotary.hpp"
#include "reference/rotary.hpp"

/// What the kernels of CPUs and GPUs turn.
namespace dos::test {

inline constexpr codelets::RotarySpeed kUsualSpeed{1e4, 1, 1, 4, 8192};

/// No token, no head; heads of 2 up to 256; gaps; positions far away; scalings that reach all three
/// parts of the frequencies.
inline std::vector<codelets::RotaryShape> rotary_shapes() {
  std::vector<codelets::RotaryShape> shapes{{0, 3, 1, 4, 4, kUsualSpeed, false},
                                            {2, 0, 1, 4, 4, kUsualSpeed, false},
                                            {1, 1, 1, 2, 2, kUsualSpeed, false},
                                            {2, 5, 3, 6, 30, kUsualSpeed, false},
                                            {1, 7, 2, 80, 400, kUsualSpeed, false},
                                            {1, 9, 2, 96, 200, kUsualSpeed, false},
                                            {1, 3, 1, 256, 256, {5e5, 1, 1, 4, 8192}, false},
                                            {1, 5000, 1, 8, 9, kUsualSpeed, false},
                                            {1, 40, 1, 64, 64, {5e5, 8, 1, 4, 8192}, false},
                                            {2, 700, 1, 16, 20, {1e4, 32, 1, 4, 256}, false},
                                            {1, 1, 2, 6, 14, kUsualSpeed, false, 1},
                                            {2, 5, 3, 6, 30, kUsualSpeed, false, 4000}};
  for (std::size_t i = 0, count = shapes.size(); i < count; ++i) {
    shapes.push_back(shapes[i]);
    shapes.back().back = true;
  }
  return shapes;
}

inline std::string name_of(const codelets::RotaryShape& s) {
  return std::to_string(s.tokens) + " tokens, heads of " + std::to_string(s.head_size) + " from " +
         std::to_string(s.first) + (s.back ? ", back" : "");
}

/// Two directions off by an eps at most, two products and a sum, half an eps each, of the two
/// numbers of the pair.
inline constexpr double kRotaryFactor = 2.5 * kEps;

inline reference::Bounded expected_rotation(const codelets::RotaryShape& s, const float* x) {
  const reference::RotaryScaling scaling{s.speed.factor, s.speed.low_freq_factor,
                                         s.speed.high_freq_factor, s.speed.original_context};
  reference::Bounded all(s.sequences * s.tokens * s.stride);
  for (Index i = 0; i < std::ssize(all.value); ++i) all.add(i, x[i]);
  for (Index row = 0; row < s.sequences * s.tokens; ++row) {
    std::vector<double> angles;
    for (Index pair = 0; pair < s.head_size / 2; ++pair)
      angles.push_back((s.back ? -1.0 : 1.0) * static_cast<double>(s.first + row % s.tokens) *
                       reference::rotary_frequency(s.speed.theta, scaling, pair, s.head_size));
    for (Index head = 0; head < s.heads; ++head) {
      const Index at = row * s.stride + head * s.head_size;
      const reference::Bounded turned = reference::rotary(s.head_size, angles.data(), x + at);
      for (Index i = 0; i < s.head_size; ++i) {
        all.value[static_cast<std::size_t>(at + i)] = turned.value[static_cast<std::size_t>(i)];
        all.magnitude[static_cast<std::size_t>(at + i)] =
            turned.magnitude[static_cast<std::size_t>(i)];
      }
    }
  }
  return all;
}

}  // namespace dos::test
