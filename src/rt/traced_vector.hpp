// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "base/types.hpp"
#include "rt/handle.hpp"

namespace dos::rt {

/// Registers a vector in host memory as starpu_vector_data_register does, but its copies between
/// memory nodes are told to the trace sink as those of buffer `number`.
void register_traced_vector(RawHandle* handle, std::byte* home, Index count, Index element_bytes,
                            Index number);

}  // namespace dos::rt
