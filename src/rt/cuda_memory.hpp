// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "base/types.hpp"

namespace dos::rt {

/// All memory of the CUDA devices that this process sees, in bytes, by their number
/// (cuda_bus_ids()), whoever uses it. Before or while a session runs.
std::vector<Index> cuda_memory_bytes();

/// Bytes of a CUDA device, by its number, that nobody uses now: neither this process nor another,
/// CUDA's own needs counted as used. Makes the device the calling thread's. Throws Error when the
/// driver does not say, or StarPU was built without CUDA.
Index cuda_free_bytes(int device);

}  // namespace dos::rt
