// SPDX-License-Identifier: Apache-2.0
#include "sched_starpu/held_memory.hpp"

#include <starpu.h>

#include <algorithm>
#include <utility>

namespace dos::sched_starpu {
namespace {

std::size_t count_of(units::Bytes bytes) {
  return static_cast<std::size_t>(bytes.value());
}

}  // namespace

void HeldMemory::begin_step(const std::vector<UpdateRoom>& rooms) {
  release();
  for (std::size_t i = 0; i < std::min(rooms.size(), gpus_.size()); ++i) {
    const UpdateRoom& room = rooms[i];
    if (!room.is_even) continue;
    // Negative where memory has no limit.
    const units::Bytes free(static_cast<double>(starpu_memory_get_available(gpus_[i].memory)));
    {
      const std::lock_guard lock(mutex_);
      gpus_[i].streaming = room.streaming;
    }
    hold(static_cast<Index>(i), free - room.streaming);
  }
}

void HeldMemory::found(Index gpu, units::Bytes bytes) {
  units::Bytes less{0};
  {
    const std::lock_guard lock(mutex_);
    units::Bytes& left = gpus_[static_cast<std::size_t>(gpu)].streaming;
    less = std::min(bytes, left);
    left -= less;
  }
  hold(gpu, less);
}

void HeldMemory::give(Index gpu, units::Bytes bytes) {
  Gpu& from = gpus_[static_cast<std::size_t>(gpu)];
  units::Bytes less{0};
  {
    const std::lock_guard lock(mutex_);
    less = std::min(bytes, from.held);
    from.held -= less;
  }
  if (less.value() >= 1) starpu_memory_deallocate(from.memory, count_of(less));
}

void HeldMemory::hold(Index gpu, units::Bytes bytes) {
  Gpu& of = gpus_[static_cast<std::size_t>(gpu)];
  if (!(bytes.value() >= 1)) return;
  const std::size_t count = count_of(bytes);
  if (starpu_memory_allocate(of.memory, count, /*flags=*/0) != 0) return;
  const std::lock_guard lock(mutex_);
  of.held += units::Bytes(static_cast<double>(count));
  holds_ = true;
}

void HeldMemory::release() {
  if (!holds_.exchange(false)) return;
  for (Gpu& gpu : gpus_) {
    units::Bytes held{0};
    {
      const std::lock_guard lock(mutex_);
      std::swap(held, gpu.held);
      gpu.streaming = units::Bytes(0);
    }
    if (held.value() >= 1) starpu_memory_deallocate(gpu.memory, count_of(held));
  }
}

}  // namespace dos::sched_starpu
