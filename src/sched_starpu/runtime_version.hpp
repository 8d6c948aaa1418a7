// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <starpu.h>

namespace dos::sched_starpu {

/// Lets the runtime copy a buffer to host memory once the task that writes it has ended, so that
/// its copy on the GPU can be dropped without a wait.
inline void start_write_back(starpu_data_handle_t handle) {
#if STARPU_MAJOR_VERSION == 1 && STARPU_MINOR_VERSION < 4
  // Idle requests and starpu_data_wont_use() never end in 1.3 once the GPU's memory is limited.
  starpu_data_prefetch_on_node(handle, STARPU_MAIN_RAM, 1);
#else
  starpu_data_idle_prefetch_on_node(handle, STARPU_MAIN_RAM, 1);
#endif
}

}  // namespace dos::sched_starpu
