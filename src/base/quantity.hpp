// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>

namespace dos::units {

/// A number with its unit, as exponents of parameters, bytes, seconds and floating-point
/// operations. Only like units add and compare; products and quotients have the unit that follows.
/// The value is in base units: parameters, bytes, seconds, FLOP.
template <int kParam, int kByte, int kSecond, int kFlop>
class Quantity {
 public:
  constexpr Quantity() = default;
  constexpr explicit Quantity(double value) : value_(value) {}
  [[nodiscard]] constexpr double value() const { return value_; }

  constexpr auto operator<=>(const Quantity&) const = default;
  constexpr Quantity& operator+=(Quantity other) {
    value_ += other.value_;
    return *this;
  }
  constexpr Quantity& operator-=(Quantity other) {
    value_ -= other.value_;
    return *this;
  }
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return a += b; }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return a -= b; }
  friend constexpr Quantity operator*(Quantity a, double factor) {
    return Quantity(a.value_ * factor);
  }
  friend constexpr Quantity operator*(double factor, Quantity a) { return a * factor; }
  friend constexpr Quantity operator/(Quantity a, double divisor) {
    return Quantity(a.value_ / divisor);
  }

 private:
  double value_ = 0;
};

template <int kP1, int kB1, int kS1, int kF1, int kP2, int kB2, int kS2, int kF2>
constexpr auto operator*(Quantity<kP1, kB1, kS1, kF1> a, Quantity<kP2, kB2, kS2, kF2> b) {
  return Quantity<kP1 + kP2, kB1 + kB2, kS1 + kS2, kF1 + kF2>(a.value() * b.value());
}

template <int kP1, int kB1, int kS1, int kF1, int kP2, int kB2, int kS2, int kF2>
constexpr auto operator/(Quantity<kP1, kB1, kS1, kF1> a, Quantity<kP2, kB2, kS2, kF2> b) {
  if constexpr (kP1 == kP2 && kB1 == kB2 && kS1 == kS2 && kF1 == kF2)
    return a.value() / b.value();
  else
    return Quantity<kP1 - kP2, kB1 - kB2, kS1 - kS2, kF1 - kF2>(a.value() / b.value());
}

using Params = Quantity<1, 0, 0, 0>;
using Bytes = Quantity<0, 1, 0, 0>;
using Seconds = Quantity<0, 0, 1, 0>;
using Flops = Quantity<0, 0, 0, 1>;
using ParamsPerSecond = Quantity<1, 0, -1, 0>;
using BytesPerSecond = Quantity<0, 1, -1, 0>;
using FlopsPerSecond = Quantity<0, 0, -1, 1>;
using BytesPerParam = Quantity<-1, 1, 0, 0>;
using SecondsPerByte = Quantity<0, -1, 1, 0>;

constexpr ParamsPerSecond gparams_per_second(double value) {
  return ParamsPerSecond(value * 1e9);
}
/// Decimal: 10^9 bytes.
constexpr Bytes gigabytes(double value) {
  return Bytes(value * 1e9);
}
constexpr BytesPerSecond gigabytes_per_second(double value) {
  return BytesPerSecond(value * 1e9);
}
constexpr Seconds microseconds(double value) {
  return Seconds(value * 1e-6);
}

}  // namespace dos::units
