// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/types.hpp"

namespace dos::io {

/// What run.json of a run's output folder says of itself. A higher number is for what readers would
/// misunderstand: new fields alone change nothing.
inline constexpr Index kRunFormat = 1;

}  // namespace dos::io
