// SPDX-License-Identifier: Apache-2.0
#include "rt/live_handles.hpp"

#include <starpu.h>

#include <algorithm>

#include "rt/device.hpp"

namespace dos::rt {

LiveHandles& LiveHandles::instance() {
  static LiveHandles handles;
  return handles;
}

void LiveHandles::add(const Handle& handle) {
  const std::lock_guard lock(mutex_);
  handles_.insert(&handle);
}

void LiveHandles::remove(const Handle& handle) {
  const std::lock_guard lock(mutex_);
  handles_.erase(&handle);
}

// StarPU does not say what its allocation cache holds. It is at most what was given up, of which
// other buffers may have taken blocks, and at most what no buffer has of what StarPU has taken.
Index LiveHandles::released_on(int node) {
  const std::lock_guard lock(mutex_);
  Index given_up = 0;
  Index allocated = 0;
  for (const Handle* handle : handles_) {
    int is_allocated = 0;
    starpu_data_query_status(handle->raw(), node, &is_allocated, nullptr, nullptr);
    if (is_allocated != 0)
      allocated += handle->bytes();
    else if (handle->was_released_from(node))
      given_up += handle->bytes();
  }
  return std::clamp<Index>(used_on(node) - allocated, 0, given_up);
}

}  // namespace dos::rt
