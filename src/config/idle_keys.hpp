// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "config/train_config.hpp"

namespace dos::config {

/// A sentence for each key that is not as it is by default, and that nobody reads with the others
/// as they are, or that does less than it says: for warnings. Pre: config.validate() passes.
std::vector<std::string> words_on_idle_keys(const TrainConfig& config);

}  // namespace dos::config
