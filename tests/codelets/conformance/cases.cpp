// SPDX-License-Identifier: Apache-2.0
#include "codelets/conformance/cases.hpp"

#include <algorithm>
#include <iterator>

namespace dos::test {

std::vector<Case> all_cases() {
  std::vector<Case> all;
  for (auto* group : {&attention_cases, &collect_cases, &elementwise_cases, &embedding_cases,
                      &layernorm_cases, &linear_cases, &loss_cases, &update_cases}) {
    std::vector<Case> cases = (*group)();
    std::move(cases.begin(), cases.end(), std::back_inserter(all));
  }
  return all;
}

}  // namespace dos::test
