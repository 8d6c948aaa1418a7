// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

/// Numbers in double precision that know how far from them an FP32 computation of the same formula
/// may end: the running error analysis of Higham, "Accuracy and stability of numerical algorithms",
/// section 3.3. Shares no code with the product.
namespace dos::reference {

/// What the FP32 arithmetic under test promises. The product may do a formula's operations in
/// another order and multiply by a reciprocal that it rounded before: each operation counts as two
/// of them.
struct Arithmetic {
  double unit = 2 * 0x1p-24;        ///< relative error of a sum or product
  double division = 2 * 0x1p-24;    ///< of a quotient
  double root = 2 * 0x1p-24;        ///< of a square root
  double underflow = 2 * 0x1p-150;  ///< absolute error of results that are denormal
  double flushed = 0;               ///< operands up to here may be taken for 0
};

/// Of the device under test; the tests set it before they compute.
inline Arithmetic arithmetic;

struct Tracked {
  double value = 0;
  double error = 0;

  Tracked() = default;
  /// A number that the product holds exactly.
  Tracked(double exact)  // NOLINT(google-explicit-constructor): constants in formulas
      : value(exact),
        error(exact != 0 && std::abs(exact) < arithmetic.flushed ? std::abs(exact) : 0) {}
  Tracked(double v, double e) : value(v), error(e) {}
};

/// `value` as FP32 gives it when the operands were off by `propagated`.
inline Tracked rounded(double value, double propagated, double relative, double absolute) {
  constexpr double kLargest = std::numeric_limits<float>::max() * (1 + 0x1p-25);
  if (std::isnan(value)) return {value, 0};
  if (std::abs(value) > kLargest) {
    return {std::copysign(std::numeric_limits<double>::infinity(), value), 0};
  }
  if (value == 0 && propagated == 0) return {0, 0};
  const double flush = std::abs(value) - propagated < arithmetic.flushed ? arithmetic.flushed : 0;
  return {value, propagated + relative * (std::abs(value) + propagated) + absolute + flush};
}

inline Tracked operator+(Tracked a, Tracked b) {
  return rounded(a.value + b.value, a.error + b.error, arithmetic.unit, 0);
}
inline Tracked operator-(Tracked a) {
  return {-a.value, a.error};
}
inline Tracked operator-(Tracked a, Tracked b) {
  return a + -b;
}
inline Tracked operator*(Tracked a, Tracked b) {
  const double propagated =
      std::isfinite(a.value) && std::isfinite(b.value)
          ? std::abs(a.value) * b.error + std::abs(b.value) * a.error + a.error * b.error
          : 0;
  return rounded(a.value * b.value, propagated, arithmetic.unit, arithmetic.underflow);
}
inline Tracked operator/(Tracked a, Tracked b) {
  if (!std::isfinite(a.value) || !std::isfinite(b.value)) return {a.value / b.value, 0};
  const double quotient = a.value / b.value;
  const double least = std::abs(b.value) - b.error;
  const double propagated = least > 0 ? (a.error + std::abs(quotient) * b.error) / least
                                      : std::numeric_limits<double>::infinity();
  return rounded(quotient, b.error == 0 && a.error == 0 ? 0 : propagated, arithmetic.division,
                 arithmetic.underflow);
}
inline Tracked sqrt(Tracked a) {
  const double root = std::sqrt(a.value);
  const double most = std::sqrt(a.value + a.error) - root;
  const double least = root - std::sqrt(std::max(0.0, a.value - a.error));
  return rounded(root, a.error == 0 ? 0 : std::max(most, least), arithmetic.root, 0);
}
/// -1, 0 or 1; anything between when rounding may have changed the sign. NaN stays NaN.
inline Tracked sign(Tracked a) {
  const bool certain = !(std::abs(a.value) <= a.error) || a.error == 0;
  if (a.value > 0) return {1, certain ? 0.0 : 2.0};
  if (a.value < 0) return {-1, certain ? 0.0 : 2.0};
  return {a.value, certain ? 0.0 : 1.0};
}
/// A power that the product computes in double precision.
inline Tracked power(Tracked base, long long exponent) {
  return {std::pow(base.value, static_cast<double>(exponent)), 0};
}

}  // namespace dos::reference
