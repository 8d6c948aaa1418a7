// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/log.hpp"

namespace dos::storage {

/// At which level a process says what its system lacks, so that storage goes another way: info,
/// once. Of the ranks of a run one is enough: the others say it at level debug.
void say_fallbacks_at(log::Level level);
[[nodiscard]] log::Level fallback_level();

}  // namespace dos::storage
