// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <starpu.h>

#include "base/types.hpp"

// What the module knows of StarPU beyond its documented functions.
namespace dos::sched_starpu {

/// Streamed updates that may be prefetched or run on a GPU at once, whatever the plan says; 0: as
/// the plan says. When what is prefetched and what is written back fill a GPU of limited memory,
/// the memory reclaim of 1.3 spins for ever.
#if STARPU_MAJOR_VERSION == 1 && STARPU_MINOR_VERSION < 4
inline constexpr Index kMostStreamed = 1;
#else
inline constexpr Index kMostStreamed = 0;
#endif

/// Whether free memory that is held makes it use again what streamed updates have left
/// (HeldMemory): 1.3 has a window of one, and spins where memory is short.
inline constexpr bool kReusesMemory = kMostStreamed == 0;

/// Whether workers that find nothing to do ask again by themselves, or where time is simulated, so
/// that a wait without end would show.
#if defined(STARPU_NON_BLOCKING_DRIVERS) || defined(STARPU_SIMGRID)
inline constexpr bool kWorkersAskAgain = true;
#else
inline constexpr bool kWorkersAskAgain = false;
#endif

/// Whether those workers spin: each asks as often as it can.
#if defined(STARPU_NON_BLOCKING_DRIVERS) && !defined(STARPU_SIMGRID)
inline constexpr bool kWorkersSpin = true;
#else
inline constexpr bool kWorkersSpin = false;
#endif

/// Of StarPU's times and latencies, which are in microseconds.
inline constexpr double kMicro = 1e-6;

inline double now_seconds() {
  return starpu_timing_now() * kMicro;
}

/// The memory node in which CPU workers read and write.
inline constexpr unsigned kCpuMemory = STARPU_MAIN_RAM;

/// The memory node in which data live between uses, to which what a GPU need not keep goes back:
/// where the program registered them, the CPU's where it left that to StarPU.
inline unsigned home_of(starpu_data_handle_t handle) {
  const int home = starpu_data_get_home_node(handle);
  return home < 0 ? kCpuMemory : static_cast<unsigned>(home);
}

/// Lets the runtime copy a buffer to a memory node once the task that writes it has ended, so that
/// its copy on a GPU can be dropped without a wait.
inline void start_copy(starpu_data_handle_t handle, unsigned node) {
  // Idle requests and starpu_data_wont_use() never end in 1.3 once the GPU's memory is limited;
  // in 1.4 they wait while anything is prefetched, and the memory runs out.
  starpu_data_prefetch_on_node(handle, node, /*async=*/1);
}

/// Says that a policy prefetches by itself: StarPU must not do so again.
inline void announce_prefetches([[maybe_unused]] starpu_sched_policy& policy) {
#if STARPU_MAJOR_VERSION > 1 || STARPU_MINOR_VERSION >= 4
  policy.prefetches = 1;
#endif
}

}  // namespace dos::sched_starpu
