// SPDX-License-Identifier: Apache-2.0
#include "shape/trained_groups.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <sstream>

#include "base/error.hpp"
#include "shape/cutter.hpp"

namespace dos::shape {
namespace {

constexpr const char* kFreeze = "optim.freeze";
constexpr const char* kFactors = "optim.lr_factors";

bool is_frozen(const TrainedGroups& groups, const ParameterSpec& parameter) {
  return std::ranges::any_of(
      groups.frozen, [&](const std::string& pattern) { return matches(pattern, parameter); });
}

double factor_of(const TrainedGroups& groups, const ParameterSpec& parameter) {
  const auto found = std::ranges::find_if(groups.factors, [&](const TrainedGroups::Factor& each) {
    return matches(each.pattern, parameter);
  });
  return found == groups.factors.end() ? 1 : found->factor;
}

std::string state_of(const ParameterSpec& parameter) {
  return parameter.trained ? fmt::format("trained with factor {}", parameter.lr_factor) : "frozen";
}

/// Weight and bias of a norm have one task for their gradients, and one subgroup.
void expect_alike(const std::vector<ParameterSpec>& parameters) {
  const auto differ = [](const ParameterSpec& a, const ParameterSpec& b) {
    return !a.is_matrix() && !b.is_matrix() && module_of(a.name) == module_of(b.name) &&
           (a.trained != b.trained || a.lr_factor != b.lr_factor);
  };
  const auto found = std::ranges::adjacent_find(parameters, differ);
  if (found == parameters.end()) return;
  fail("{} and {}: '{}' would be {}, '{}' {}: they are computed together; name both, as '{}.*'",
       kFreeze, kFactors, found->name, state_of(*found), (found + 1)->name, state_of(*(found + 1)),
       module_of(found->name));
}

}  // namespace

bool matches(const std::string& pattern, const ParameterSpec& parameter) {
  return ::fnmatch(pattern.c_str(), parameter.name.c_str(), 0) == 0;
}

std::vector<std::string> parse_patterns(const std::string& text) {
  std::vector<std::string> patterns;
  std::istringstream list(text);
  for (std::string pattern; std::getline(list, pattern, ',');)
    if (!pattern.empty()) patterns.push_back(pattern);
  return patterns;
}

std::vector<TrainedGroups::Factor> parse_factors(const std::string& key, const std::string& text) {
  std::vector<TrainedGroups::Factor> factors;
  for (const std::string& entry : parse_patterns(text)) {
    const std::size_t colon = entry.rfind(':');
    const std::string number = colon == std::string::npos ? "" : entry.substr(colon + 1);
    double factor = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), factor);
    const bool is_number = error == std::errc() && end == number.data() + number.size() &&
                           std::isfinite(factor) && factor >= 0;
    expect(is_number && colon > 0,
           "{} = '{}': '{}' is no PATTERN:FACTOR with a finite number of at least 0, as "
           "'blocks.0.*:0.5'",
           key, text, entry);
    factors.push_back({.pattern = entry.substr(0, colon), .factor = factor});
  }
  return factors;
}

void mark_trained(const TrainedGroups& groups, std::vector<ParameterSpec>& parameters) {
  const bool has_adapters = std::ranges::any_of(parameters, &ParameterSpec::is_adapter);
  for (const std::string& pattern : groups.frozen)
    expect_match(kFreeze, pattern, has_adapters ? "adapter" : "parameter", parameters,
                 [&](const ParameterSpec& each) { return !has_adapters || each.is_adapter; });
  for (ParameterSpec& parameter : parameters) {
    parameter.trained = (!has_adapters || parameter.is_adapter) && !is_frozen(groups, parameter);
    parameter.lr_factor = parameter.trained ? factor_of(groups, parameter) : 1;
  }
  expect(groups.frozen.empty() || std::ranges::any_of(parameters, &ParameterSpec::trained),
         "{} = '{}' freezes every parameter: leave something to train", kFreeze,
         fmt::join(groups.frozen, ","));
  for (const TrainedGroups::Factor& each : groups.factors)
    expect_match(kFactors, each.pattern, "parameter that is trained", parameters,
                 [](const ParameterSpec& parameter) { return parameter.trained; });
  expect_alike(parameters);
}

}  // namespace dos::shape
