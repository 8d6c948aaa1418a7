// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "trace/ring.hpp"

namespace dos::trace {

/// Rings for threads: one belongs to a thread as long as it lives, then to another one. So threads
/// may come and go; only those that live at a time need a ring each.
template <class T>
class RingPool {
 public:
  RingPool(std::size_t rings, std::size_t capacity) {
    for (std::size_t i = 0; i < rings; ++i) {
      rings_.push_back(std::make_unique<Ring<T>>(capacity));
      free_.push_back(rings_.back().get());
    }
  }

  /// Null when threads that live have all of them.
  Ring<T>* take() noexcept {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return nullptr;
    Ring<T>* ring = free_.back();
    free_.pop_back();
    return ring;
  }
  /// By the thread that took it, at its end.
  void give_back(Ring<T>* ring) noexcept {
    const std::lock_guard lock(mutex_);
    free_.push_back(ring);  // never more than there were
  }

  [[nodiscard]] const std::vector<std::unique_ptr<Ring<T>>>& all() const { return rings_; }

 private:
  std::vector<std::unique_ptr<Ring<T>>> rings_;
  std::mutex mutex_;
  std::vector<Ring<T>*> free_;
};

/// The ring that a thread has of a pool, if any; given back when the thread ends, if the pool is
/// still there.
template <class T>
class ThreadRing {
 public:
  ThreadRing() = default;
  ThreadRing(const ThreadRing&) = delete;
  ThreadRing& operator=(const ThreadRing&) = delete;
  ~ThreadRing() { leave(); }

  /// `generation` tells pools apart.
  Ring<T>* of(const std::shared_ptr<RingPool<T>>& pool, Index generation) noexcept {
    if (generation_ == generation) return ring_;
    leave();
    generation_ = generation;
    pool_ = pool;
    ring_ = pool->take();
    return ring_;
  }

 private:
  void leave() noexcept {
    if (ring_ == nullptr) return;
    if (const auto pool = pool_.lock()) pool->give_back(ring_);
    ring_ = nullptr;
  }

  Index generation_ = 0;
  Ring<T>* ring_ = nullptr;
  std::weak_ptr<RingPool<T>> pool_;
};

}  // namespace dos::trace
