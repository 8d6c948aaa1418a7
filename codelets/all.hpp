// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "rt/codelet.hpp"

namespace dos::codelets {

/// Every codelet of the project. The conformance test demands a case for each.
std::vector<const rt::Codelet*> all_codelets();

}  // namespace dos::codelets
