// SPDX-License-Identifier: Apache-2.0
#include "sched_starpu/held_memory.hpp"

#include <starpu.h>

#include <algorithm>

namespace dos::sched_starpu {

void HeldMemory::begin_step(const std::vector<UpdateRoom>& rooms) {
  release();
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < std::min(rooms.size(), gpus_.size()); ++i) {
    const UpdateRoom& room = rooms[i];
    // Negative where memory has no limit.
    const units::Bytes free(static_cast<double>(starpu_memory_get_available(gpus_[i].memory)));
    if (!room.is_even) continue;
    gpus_[i].streaming = room.streaming;
    hold(static_cast<Index>(i), free - room.arriving - room.streaming);
  }
}

void HeldMemory::found(Index gpu, units::Bytes bytes) {
  const std::lock_guard lock(mutex_);
  units::Bytes& left = gpus_[static_cast<std::size_t>(gpu)].streaming;
  const units::Bytes less = std::min(bytes, left);
  left -= less;
  hold(gpu, less);
}

void HeldMemory::hold(Index gpu, units::Bytes bytes) {
  const auto place = static_cast<std::size_t>(gpu);
  if (!(bytes.value() >= 1)) return;
  const auto count = static_cast<std::size_t>(bytes.value());
  if (starpu_memory_allocate(gpus_[place].memory, count, /*flags=*/0) != 0) return;
  gpus_[place].held += units::Bytes(static_cast<double>(count));
  holds_ = true;
}

void HeldMemory::release() {
  if (!holds_) return;
  const std::lock_guard lock(mutex_);
  for (Gpu& gpu : gpus_) {
    const auto held = static_cast<std::size_t>(gpu.held.value());
    if (held > 0) starpu_memory_deallocate(gpu.memory, held);
    gpu = {.memory = gpu.memory};
  }
  holds_ = false;
}

}  // namespace dos::sched_starpu
