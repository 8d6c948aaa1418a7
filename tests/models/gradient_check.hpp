// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/random.hpp"
#include "models/training_run.hpp"

/// Gradients of a whole model against differences of its own loss: no other program is trusted.
namespace dos::test {

// Along a unit vector d the loss has the difference quotient
//   D(h) = (L(p + h d) - L(p - h d)) / (2 h) = g.d + h^2 M / 6 + O(h^4),
// M its third derivative there.
// - Rounding: L is a mean in double precision of FP32 losses of about ln 61 = 4.1. One unit in the
//   last place of each, 2^-21, none averaged out, is above all that the mean can be off by. Two of
//   them over 2 h: 2^-21 / h.
// - Truncation: D(2 h) - D(h) = 3 h^2 M / 6 + O(h^4), so a third of it is the error of D(h); the
//   next order is left room for by taking all of it.
// The two are equal where h^3 = 6 * 2^-21 / M: with M around 1 that is h = 0.014. The tolerance
// depends on losses alone, never on the gradient that it judges.
inline constexpr double kLossRounding = 0x1p-21;
inline constexpr double kStep = 1.0 / 64;
inline constexpr int kRandomDirections = 4;

/// A parameter's directions: random ones, each of which sees any error of the gradient, and the
/// gradient's own, in which the derivative is largest.
inline std::vector<std::vector<double>> directions_of(std::span<const float> gradient,
                                                      const std::string& name) {
  const Philox random(stream_of(name));
  std::vector<std::vector<double>> directions;
  for (int direction = 0; direction <= kRandomDirections; ++direction) {
    std::vector<double> d(gradient.size());
    for (std::size_t i = 0; i < d.size(); ++i)
      d[i] = direction < kRandomDirections ? random.normal(i, static_cast<std::uint64_t>(direction))
                                           : gradient[i];
    double square = 0;
    for (const double x : d) square += x * x;
    for (double& x : d) x /= std::sqrt(square);
    directions.push_back(d);
  }
  return directions;
}

/// Of a run and one micro-batch that it can take.
class GradientCheck {
 public:
  GradientCheck(TrainingRun& run, std::span<const std::int32_t> tokens)
      : run_(run), tokens_(tokens) {}

  /// Compares the gradient of every parameter along random directions and its own, in which an
  /// error of half a percent is seen.
  void expect_gradients() {
    run_.gradients(tokens_);
    for (const shape::PlacedParameter& parameter : run_.layout().parameters) {
      const std::string& name = parameter.spec.name;
      SCOPED_TRACE(name);
      const std::vector<float> origin = run_.read(run_.parameters().values(), name);
      const std::vector<float> gradient = run_.read(run_.parameters().gradients(), name);
      const auto directions = directions_of(gradient, name);
      for (std::size_t k = 0; k < directions.size(); ++k) {
        const Quotient fine = quotient(parameter, origin, gradient, directions[k], kStep);
        const Quotient coarse = quotient(parameter, origin, gradient, directions[k], 2 * kStep);
        const double tolerance = kLossRounding / kStep + std::abs(coarse.measured - fine.measured);
        EXPECT_NEAR(fine.measured, fine.predicted, tolerance) << "direction " << k;
        if (k == directions.size() - 1) {
          EXPECT_LE(tolerance, 0.005 * std::abs(fine.predicted));
        }
      }
    }
  }

 private:
  /// Difference quotient with step `h`, and what the gradient says of the same two points: in FP32
  /// they do not lie exactly along d.
  struct Quotient {
    double measured;
    double predicted;
  };
  Quotient quotient(const shape::PlacedParameter& parameter, std::span<const float> origin,
                    std::span<const float> gradient, std::span<const double> d, double h) {
    std::vector<float> above(origin.size());
    std::vector<float> below(origin.size());
    double predicted = 0;
    for (std::size_t i = 0; i < origin.size(); ++i) {
      above[i] = static_cast<float>(origin[i] + h * d[i]);
      below[i] = static_cast<float>(origin[i] - h * d[i]);
      predicted += gradient[i] * (static_cast<double>(above[i]) - static_cast<double>(below[i]));
    }
    run_.parameters().values().write(parameter, above);
    const double loss_above = run_.evaluate(tokens_);
    run_.parameters().values().write(parameter, below);
    const double loss_below = run_.evaluate(tokens_);
    run_.parameters().values().write(parameter, origin);
    return {(loss_above - loss_below) / (2 * h), predicted / (2 * h)};
  }

  TrainingRun& run_;
  std::span<const std::int32_t> tokens_;
};

}  // namespace dos::test
