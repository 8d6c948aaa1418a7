// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <mutex>
#include <vector>

#include "base/quantity.hpp"
#include "sched_starpu/worker_place.hpp"

namespace dos::sched_starpu {

/// Memory of GPUs that updates are not to take. StarPU gives each streamed update memory of its own
/// as long as any is free, a fraction of a millisecond a buffer and GPU after GPU, before it uses
/// any again: a step takes several times as long until all is used. What is held is only counted:
/// nothing is allocated. Thread-safe; no lock is held around what StarPU may wait in.
class HeldMemory {
 public:
  HeldMemory() = default;
  HeldMemory(const HeldMemory&) = delete;
  HeldMemory& operator=(const HeldMemory&) = delete;
  ~HeldMemory() { release(); }

  /// One more GPU, with this memory node of StarPU. Before the first step.
  void add_gpu(unsigned memory) { gpus_.push_back({.memory = memory}); }

  /// A step begins: holds what is free but for these, where streamed updates can use memory of each
  /// other. `rooms`: by GPU.
  void begin_step(const std::vector<UpdateRoom>& rooms);
  /// Whether anything is held.
  [[nodiscard]] bool holds() const { return holds_; }
  /// An update has this memory of the GPU from the step before: so much less may be allocated.
  void found(Index gpu, units::Bytes bytes);
  /// An update lacks this memory of the GPU and is to have it: so much less is held.
  void give(Index gpu, units::Bytes bytes);
  /// Others need memory, or the updates have run.
  void release();

 private:
  struct Gpu {
    unsigned memory;
    units::Bytes held{0};
    units::Bytes streaming{0};  ///< that updates may still allocate to stream
  };
  void hold(Index gpu, units::Bytes bytes);

  std::mutex mutex_;
  std::vector<Gpu> gpus_;
  std::atomic<bool> holds_{false};
};

}  // namespace dos::sched_starpu
