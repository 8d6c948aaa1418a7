// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>

#include "reference/adagrad.hpp"
#include "reference/adamw.hpp"
#include "reference/lion.hpp"
#include "reference/sgd.hpp"

namespace dos::reference {

struct NamedRule {
  const char* name;
  RuleFormula formula;
};

inline constexpr NamedRule kRules[] = {
    {"adamw", &adamw},
    {"sgd", &sgd},
    {"lion", &lion},
    {"adagrad", &adagrad},
};

/// Throws when a rule of the product has no reference.
inline RuleFormula formula_of(const std::string& rule) {
  for (const NamedRule& each : kRules)
    if (rule == each.name) return each.formula;
  throw std::runtime_error("tests/reference/all.hpp has no formula of rule " + rule);
}

/// `value` rounded to the nearest BF16 number, ties to even, and back; by arithmetic, not by bits.
inline double nearest_bf16(double value) {
  if (!std::isfinite(value) || value == 0) return value;
  // 8 significant bits, but no finer than the spacing of denormal numbers, 2^-133.
  const double spacing = std::max(std::ldexp(1.0, std::ilogb(value) - 7), 0x1p-133);
  const double nearest = std::nearbyint(value / spacing) * spacing;
  constexpr double kLargest = 0x1.FEp127;
  return std::abs(nearest) > kLargest
             ? std::copysign(std::numeric_limits<double>::infinity(), value)
             : nearest;
}

}  // namespace dos::reference
