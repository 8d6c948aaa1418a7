// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "codelets/conformance/harness.hpp"

namespace dos::test {

std::vector<Case> attention_cases();
std::vector<Case> collect_cases();
std::vector<Case> elementwise_cases();  ///< gelu, swiglu, fill, init_normal, round, load_tokens
std::vector<Case> embedding_cases();
std::vector<Case> layernorm_cases();
std::vector<Case> linear_cases();
std::vector<Case> update_cases();  ///< every rule with every type
std::vector<Case> loss_cases();    ///< cross entropy, mean loss, gradient norm

/// All of them.
std::vector<Case> all_cases();

}  // namespace dos::test
