// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <starpu.h>

#include <mutex>
#include <span>
#include <unordered_set>

#include "sched_starpu/read_order.hpp"
#include "sched_starpu/tuning.hpp"

namespace dos::sched_starpu {

/// Brings weights to a GPU whose memory is short before forward or backward asks for them, and
/// keeps those that are read soon. StarPU fetches for tasks that are ready, and gives the memory of
/// what was used longest ago to what comes: in backward that of weights which it reads next, not of
/// those that it needs no more. Thread-safe; no lock is held while StarPU is called.
class LookAhead {
 public:
  /// `memory`: a memory node of StarPU with a limit.
  LookAhead(unsigned memory, const Tuning& tuning) : memory_(memory), tuning_(tuning) {}

  /// These are weights: an update writes them.
  void add_weights(std::span<const starpu_data_handle_t> weights);
  /// A task of forward or backward is ready to run there, in this step of the updates.
  void ready(starpu_task* task, Index step);
  /// The program may have unregistered all buffers.
  void forget();

 private:
  /// Records what the task reads. Returns whether it reads weights.
  bool record(starpu_task* task, Index step);

  const unsigned memory_;
  const Tuning tuning_;
  std::mutex mutex_;
  std::unordered_set<const void*> weights_;
  ReadOrder order_;
  Index step_ = 0;
  units::Bytes kept_at_{0};  ///< ReadOrder::read_bytes() when weights were kept last
};

}  // namespace dos::sched_starpu
