// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "base/types.hpp"

namespace dos::rt {

/// All memory of the CUDA devices that this process sees, in bytes, by their number
/// (cuda_bus_ids()), whoever uses it. Before or while a session runs.
std::vector<Index> cuda_memory_bytes();

}  // namespace dos::rt
