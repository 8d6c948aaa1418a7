// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "codelets/conformance/harness.hpp"

namespace dos::test {

/// Every codelet's.
std::vector<Case> all_cases();

/// Those of the updates: every rule with every type.
std::vector<Case> update_cases();

}  // namespace dos::test
