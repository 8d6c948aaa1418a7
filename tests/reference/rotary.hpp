// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <numbers>

#include "reference/bounded.hpp"

namespace dos::reference {

/// As Llama 3.1 has it: by wavelengths, not by turns.
struct RotaryScaling {
  double factor = 1;
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  double original_context = 8192;
};

/// Radians a token of pair `pair` of a head of `size` elements.
inline double rotary_frequency(double theta, const RotaryScaling& s, Index pair, Index size) {
  const double frequency =
      1.0 / std::pow(theta, 2.0 * static_cast<double>(pair) / static_cast<double>(size));
  const double wavelength = 2 * std::numbers::pi / frequency;
  if (s.factor == 1 || wavelength < s.original_context / s.high_freq_factor) return frequency;
  if (wavelength > s.original_context / s.low_freq_factor) return frequency / s.factor;
  const double smooth = (s.original_context / wavelength - s.low_freq_factor) /
                        (s.high_freq_factor - s.low_freq_factor);
  return (1 - smooth) * frequency / s.factor + smooth * frequency;
}

/// One head after `angles[size / 2]`, as a rotation of complex numbers low + i high.
inline Bounded rotary(Index size, const double* angles, const float* x) {
  Bounded y(size);
  const Index half = size / 2;
  for (Index i = 0; i < half; ++i) {
    y.add(i, x[i] * std::cos(angles[i]));
    y.add(i, -x[half + i] * std::sin(angles[i]));
    y.add(half + i, x[half + i] * std::cos(angles[i]));
    y.add(half + i, x[i] * std::sin(angles[i]));
    // The cosine and the sine are off by so much whatever they are.
    const double both = std::abs(x[i]) + std::abs(x[half + i]);
    y.magnitude[static_cast<std::size_t>(i)] = both;
    y.magnitude[static_cast<std::size_t>(half + i)] = both;
  }
  return y;
}

}  // namespace dos::reference
