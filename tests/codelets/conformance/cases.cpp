// SPDX-License-Identifier: Apache-2.0
#include "codelets/conformance/cases.hpp"

#include <algorithm>
#include <iterator>

namespace dos::test {

// Each in a file of its own, <name>.cpp.
std::vector<Case> attention_cases();
std::vector<Case> collect_cases();
std::vector<Case> elementwise_cases();  // gelu, swiglu, fill, init_random, round, load_tokens
std::vector<Case> embedding_cases();
std::vector<Case> layernorm_cases();
std::vector<Case> linear_cases();
std::vector<Case> low_rank_cases();
std::vector<Case> loss_cases();  // cross entropy, mean loss, gradient norm
std::vector<Case> rmsnorm_cases();
std::vector<Case> rotary_cases();

std::vector<Case> all_cases() {
  std::vector<Case> all;
  for (auto* group : {&attention_cases, &collect_cases, &elementwise_cases, &embedding_cases,
                      &layernorm_cases, &linear_cases, &low_rank_cases, &loss_cases, &rmsnorm_cases,
                      &rotary_cases, &update_cases}) {
    std::vector<Case> cases = (*group)();
    std::move(cases.begin(), cases.end(), std::back_inserter(all));
  }
  return all;
}

}  // namespace dos::test
