// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/types.hpp"

namespace dos {

/// "1.50 GiB", "12.0 MiB", "17 B": three significant digits, binary units.
std::string format_bytes(Index bytes);

/// "1h02m", "3m20s", "12s".
std::string format_duration(double seconds);

}  // namespace dos
