// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <limits>
#include <optional>
#include <string>

#include "base/error.hpp"

namespace dos {

/// The numbers that a value may be. Infinity and what is no number never are.
struct Range {
  double least = std::numeric_limits<double>::lowest();
  double most = std::numeric_limits<double>::max();
  bool has_least = true;            ///< false: only what is above it
  bool has_most = true;             ///< false: only what is below it
  std::optional<double> also{};     ///< one number outside that has a meaning of its own
  const char* also_word = nullptr;  ///< users write it for `also`; null: the number
  const char* words = nullptr;      ///< behind "must"; null: the bounds
  const char* note = "";            ///< behind that

  [[nodiscard]] constexpr bool holds(double value) const {
    return value == also || ((has_least ? value >= least : value > least) &&
                             (has_most ? value <= most : value < most));
  }

  /// "be at least 1", "lie in [0, 1)"
  [[nodiscard]] std::string text() const {
    if (words != nullptr) return std::string(words) + note;
    if (most == std::numeric_limits<double>::max())
      return fmt::format("be at least {:g}{}", least, note);
    return fmt::format("lie in [{:g}, {:g}{}{}", least, most, has_most ? "]" : ")", note);
  }
};

constexpr Range at_least(double least) {
  return {.least = least};
}
constexpr Range between(double least, double most) {
  return {.least = least, .most = most};
}
inline constexpr Range kPositive{.least = 0, .has_least = false, .words = "be positive"};
inline constexpr Range kNotNegative{.least = 0, .words = "not be negative"};

/// Throws Error "NAME must lie in [0, 1], got 2" unless the range holds the value.
template <class T>
void expect_in(const Range& range, const std::string& name, T value) {
  expect(range.holds(static_cast<double>(value)), "{} must {}, got {}", name, range.text(), value);
}

}  // namespace dos
