// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "trace/report/analysis.hpp"

namespace dos::trace {

/// "products to disk: 85.1 MB and 40.2 ms a step, 3.10 ms of it not hidden"; of what is computed
/// again without bytes.
std::string in_words(const ActivationCost& cost);

/// Which of them costs most; "": nothing shows, or there are none.
std::string dearest(const Analysis& analysis);

/// A table of them, and dearest().
std::string activation_section(const Analysis& analysis);

}  // namespace dos::trace
