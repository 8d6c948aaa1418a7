// SPDX-License-Identifier: Apache-2.0
#include "codelets/update/rule_info.hpp"

#include <cmath>
#include <cstring>
#include <type_traits>

#include "codelets/update/rules/all_rules.hpp"

namespace dos::codelets {
namespace {

template <class Rule>
StepBytes step_bytes(const Hyperparameters& hyperparameters, float learning_rate, Index step) {
  using Step = typename Rule::Step;
  static_assert(std::is_trivially_copyable_v<Step> && sizeof(Step) <= StepBytes::kMost);
  const Step value = Rule::step(hyperparameters, learning_rate, step);
  StepBytes result{};
  std::memcpy(result.bytes, &value, sizeof value);
  return result;
}

template <class... Rules>
std::span<const RuleInfo> infos_of(RuleList<Rules...> /*list*/) {
  static_assert(((kStatesOf<Rules> >= 1 && kStatesOf<Rules> <= kMostStates) && ...));
  static constexpr RuleInfo kInfos[] = {{.name = Rules::kName,
                                         .states = Rules::kStates,
                                         .operations = Rules::kOperations,
                                         .step_size = sizeof(typename Rules::Step),
                                         .step = &step_bytes<Rules>}...};
  return kInfos;
}

}  // namespace

std::span<const RuleInfo> all_rules() {
  return infos_of(AllRules{});
}

float inverse_bias(float beta, Index step) {
  return static_cast<float>(1.0 /
                            (1.0 - std::pow(static_cast<double>(beta), static_cast<double>(step))));
}

}  // namespace dos::codelets
