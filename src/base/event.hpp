// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace dos {

/// Something that happens once, and that threads wait for.
class Event {
 public:
  void set() {
    // Under the lock: whoever waits may destroy this object when it has it.
    const std::lock_guard lock(mutex_);
    is_set_ = true;
    changed_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return is_set_; });
  }
  /// For at most so long. Whether it has happened.
  bool wait_for(std::chrono::duration<double> most) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, most, [&] { return is_set_; });
  }
  [[nodiscard]] bool is_set() const {
    const std::lock_guard lock(mutex_);
    return is_set_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool is_set_ = false;
};

}  // namespace dos
