// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/types.hpp"

namespace dos {

/// A count as a number to calculate with; exact up to 2^53.
constexpr double real(Index count) {
  return static_cast<double>(count);
}

}  // namespace dos
