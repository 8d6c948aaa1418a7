// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>

#include "base/error.hpp"
#include "base/types.hpp"

namespace dos::trace {

/// A queue of fixed size from one thread to one other. Neither waits for the other: what finds no
/// room is counted and lost.
template <class T>
class Ring {
 public:
  /// Memory is touched as it is used.
  explicit Ring(std::size_t capacity)
      : capacity_(capacity), slots_(std::make_unique_for_overwrite<Slot[]>(capacity)) {
    require(capacity > 0, "a ring has room");
  }

  /// By the one thread.
  void push(const T& value) noexcept {
    const std::size_t written = written_.load(std::memory_order_relaxed);
    if (written - read_.load(std::memory_order_acquire) == capacity_) {
      lost_.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    new (slots_[written % capacity_].bytes) T(value);
    written_.store(written + 1, std::memory_order_release);
  }

  /// By the other: hands every value to `use`, in order.
  template <class Use>
  void drain(Use&& use) {
    const std::size_t end = written_.load(std::memory_order_acquire);
    for (std::size_t at = read_.load(std::memory_order_relaxed); at != end; ++at) {
      use(*std::launder(reinterpret_cast<const T*>(slots_[at % capacity_].bytes)));
      read_.store(at + 1, std::memory_order_release);
    }
  }

  [[nodiscard]] Index lost() const { return lost_.load(std::memory_order_relaxed); }

 private:
  struct Slot {
    alignas(T) std::byte bytes[sizeof(T)];
  };
  const std::size_t capacity_;
  std::unique_ptr<Slot[]> slots_;
  // Each on a cache line of its own.
  alignas(64) std::atomic<std::size_t> written_{0};
  alignas(64) std::atomic<std::size_t> read_{0};
  std::atomic<Index> lost_{0};
};

}  // namespace dos::trace
