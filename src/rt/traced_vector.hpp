// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "base/types.hpp"
#include "rt/handle.hpp"

namespace dos::rt {

struct VectorElements {
  Index count = 0;
  Index room = 0;   ///< for which devices allocate memory
  Index bytes = 0;  ///< of each
};

/// Registers a vector in host memory as starpu_vector_data_register does, but its copies between
/// memory nodes are told to the trace sink as those of buffer `number`.
void register_traced_vector(RawHandle* handle, std::byte* home, const VectorElements& elements,
                            Index number);

}  // namespace dos::rt
