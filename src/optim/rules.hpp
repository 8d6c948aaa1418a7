// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "codelets/update/update_codelet.hpp"

namespace dos::optim {

/// An update rule and its number in codelets::AllRules.
struct Rule {
  const codelets::RuleInfo* info;
  Index number;
};

/// Throws Error for an unknown optim.rule, listing the known ones.
Rule find_rule(const std::string& name);

/// How many FP32 numbers such a rule keeps of a parameter: AdamW's m and v. Throws as find_rule().
Index states_of_rule(const std::string& name);

std::vector<std::string> known_rules();

/// Whether a known rule reads optim.KEY: beta1, beta2, momentum or eps.
bool reads(std::string_view rule, std::string_view key);

/// "adamw (optim.beta1, ...), ...": the rules with what they read and what to know about them.
std::string rules_help();

}  // namespace dos::optim
