// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/log.hpp"

namespace dos::storage {

/// How a process says what its system lacks, so that storage goes another way: at this level, with
/// `who` before it. Of the ranks of a node one is enough at level info, which is the default.
void say_fallbacks_at(log::Level level, std::string who = "");
/// Says it so. Any thread.
void say_fallback(const std::string& what);

}  // namespace dos::storage
