// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "config/options.hpp"
#include "config/train_config.hpp"

namespace dos::test {

/// Numbers just outside a range, or one away from it.
inline std::vector<double> numbers_outside(const Range& range) {
  std::vector<double> numbers;
  for (const double number :
       {range.least - 1, range.least - 2, range.most + 1, range.least, range.most})
    if (std::isfinite(number) && !range.holds(number)) numbers.push_back(number);
  return numbers;
}

/// Another value that the key may have, found from its domain.
inline void set_other(const config::Key& key) {
  const config::Domain& domain = key.option->domain;
  const auto* range = std::get_if<Range>(&domain);
  const auto other_number = [&](auto& number) {
    using T = std::remove_reference_t<decltype(number)>;
    if (range == nullptr) throw std::logic_error(key.name + " is a number without a range");
    for (const T next : {static_cast<T>(number + 1), static_cast<T>(number - 1),
                         static_cast<T>(range->least + 0.5)})
      if (next != number && range->holds(static_cast<double>(next))) {
        number = next;
        return;
      }
    throw std::logic_error(key.name + " has no other value");
  };
  if (auto* const* flag = std::get_if<bool*>(&key.value)) **flag = !**flag;
  if (auto* const* number = std::get_if<Index*>(&key.value)) other_number(**number);
  if (auto* const* number = std::get_if<double*>(&key.value)) other_number(**number);
  if (auto* const* text = std::get_if<std::string*>(&key.value)) {
    if (const auto* choice = std::get_if<config::Choice>(&domain))
      **text = **text == choice->first ? choice->second : choice->first;
    else if (const auto* named = std::get_if<config::Named>(&domain))
      **text = named->known()[named->known().front() == **text ? 1 : 0];
    else
      **text += "x";
  }
}

}  // namespace dos::test
