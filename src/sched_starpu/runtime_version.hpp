// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <starpu.h>

namespace dos::sched_starpu {

/// Streamed updates that may be prefetched or run on a GPU at once, whatever the plan says; 0: as
/// the plan says. When what is prefetched and what is written back fill a GPU of limited memory,
/// the memory reclaim of 1.3 spins for ever.
#if STARPU_MAJOR_VERSION == 1 && STARPU_MINOR_VERSION < 4
inline constexpr long kMostStreamed = 1;
#else
inline constexpr long kMostStreamed = 0;
#endif

/// Lets the runtime copy a buffer to host memory once the task that writes it has ended, so that
/// its copy on the GPU can be dropped without a wait.
inline void start_write_back(starpu_data_handle_t handle) {
  // Idle requests and starpu_data_wont_use() never end in 1.3 once the GPU's memory is limited;
  // in 1.4 they wait while anything is prefetched, and the memory runs out.
  starpu_data_prefetch_on_node(handle, STARPU_MAIN_RAM, 1);
}

/// Says that a policy prefetches by itself: StarPU must not do so again.
inline void announce_prefetches([[maybe_unused]] starpu_sched_policy& policy) {
#if STARPU_MAJOR_VERSION > 1 || STARPU_MINOR_VERSION >= 4
  policy.prefetches = 1;
#endif
}

}  // namespace dos::sched_starpu
