// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "base/types.hpp"

namespace dos::rt {

/// The version of StarPU's format of history models that is known here: 1.3.10 and 1.4 write it.
inline constexpr Index kHistoryFormat = 45;

/// Throws Error unless StarPU can read the text of a model of this version: as many devices,
/// implementations and entries as it announces, times that are finite and not negative. The message
/// is "line 12: ..." without file and remedy.
void expect_history_text(std::string_view text);

}  // namespace dos::rt
