// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/types.hpp"

namespace dos {

/// "1.50 GiB", "12.0 MiB", "17 B": three significant digits, binary units.
std::string format_bytes(Index bytes);

/// Of "400GB", "1.5TiB": a number and MB, GB, TB, MiB, GiB or TiB. Nullopt for anything else, less
/// than a byte, or more than 10^17.
std::optional<Index> parse_bytes(std::string_view text);

/// "1h02m", "3m20s", "12s".
std::string format_duration(double seconds);

}  // namespace dos
