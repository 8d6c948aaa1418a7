// SPDX-License-Identifier: Apache-2.0
#include "rt/idle_naps.hpp"

#include <starpu.h>
#include <starpu_expert.h>

#include <algorithm>
#include <thread>
#include <utility>

namespace dos::rt {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kNoHook = -1;
/// The system wakes a thread about this late: a shorter sleep is none.
constexpr std::chrono::microseconds kShortestNap{50};
constexpr std::chrono::microseconds kLongestNap{500};
constexpr int kPartOfWait = 8;

thread_local bool has_worked = true;
thread_local Clock::time_point idle_since;

/// StarPU calls it in a CPU worker that has found no task, without holding a lock. The result says
/// that the worker may block.
[[maybe_unused]] unsigned nap(void* /*unused*/) {
  const Clock::time_point now = Clock::now();
  if (std::exchange(has_worked, false)) idle_since = now;
  const std::chrono::nanoseconds length = nap_after(now - idle_since);
  if (length.count() > 0) std::this_thread::sleep_for(length);
  return 1;
}

}  // namespace

std::chrono::nanoseconds nap_after(std::chrono::nanoseconds idle) {
  const std::chrono::nanoseconds part = idle / kPartOfWait;
  if (part < kShortestNap) return std::chrono::nanoseconds(0);
  return std::min<std::chrono::nanoseconds>(part, kLongestNap);
}

void note_work() noexcept {
  has_worked = true;
}

#if defined(STARPU_NON_BLOCKING_DRIVERS) && !defined(STARPU_SIMGRID)
IdleNaps::IdleNaps() : hook_(starpu_idle_hook_register(nap, nullptr)) {}
#else
IdleNaps::IdleNaps() : hook_(kNoHook) {}
#endif

IdleNaps::~IdleNaps() {
  if (hook_ != kNoHook) starpu_idle_hook_deregister(hook_);
}

}  // namespace dos::rt
