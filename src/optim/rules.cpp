// SPDX-License-Identifier: Apache-2.0
#include "optim/rules.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <string_view>

#include "base/error.hpp"
#include "base/nearest.hpp"

namespace dos::optim {
namespace {

/// A rule as the configuration offers it: its name, the keys of optim that it reads beside lr and
/// weight_decay, and what --help says of them.
struct Entry {
  std::string_view name;
  std::vector<std::string_view> keys;
  std::string_view help{};
};

const Entry kRules[] = {
    {"adamw", {"beta1", "beta2", "eps"}},
    {"sgd", {"momentum"}},
    {"lion", {"beta1", "beta2"}, ": 0.95 and 0.98 for text; lr 3 to 10 times below adamw's"},
    {"adagrad", {"eps"}, ": 1e-10"},
};

}  // namespace

Rule find_rule(const std::string& name) {
  const std::vector<std::string> known = known_rules();
  expect(std::find(known.begin(), known.end(), name) != known.end(),
         "unknown optim.rule '{}'{}; known: {}", name, did_you_mean(name, known),
         fmt::join(known, ", "));
  const std::span<const codelets::RuleInfo> rules = codelets::all_rules();
  const auto rule = std::find_if(rules.begin(), rules.end(),
                                 [&](const codelets::RuleInfo& r) { return name == r.name; });
  require(rule != rules.end(), "a registered rule is in codelets/update/rules/all_rules.hpp");
  return {&*rule, rule - rules.begin()};
}

Index states_of_rule(const std::string& name) {
  return std::ssize(find_rule(name).info->states);
}

std::vector<std::string> known_rules() {
  std::vector<std::string> names;
  for (const Entry& entry : kRules) names.emplace_back(entry.name);
  return names;
}

std::string rules_help() {
  std::vector<std::string> parts;
  for (const Entry& entry : kRules)
    parts.push_back(
        fmt::format("{} (reads {}{})", entry.name, fmt::join(entry.keys, ", "), entry.help));
  return fmt::format("{}", fmt::join(parts, ", "));
}

bool reads(std::string_view rule, std::string_view key) {
  const auto* const entry = std::ranges::find(kRules, rule, &Entry::name);
  require(entry != std::end(kRules), "a known rule");
  return std::ranges::find(entry->keys, key) != entry->keys.end();
}

}  // namespace dos::optim
