// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "storage/backend.hpp"

namespace dos::test {

/// What operations wait for that hang.
class Gate {
 public:
  void open() {
    const std::lock_guard lock(mutex_);
    is_open_ = true;
    for (const auto& wake : wakes_) wake();
    wakes_.clear();
  }
  [[nodiscard]] bool is_open() const {
    const std::lock_guard lock(mutex_);
    return is_open_;
  }
  /// Called once when it opens, from its thread.
  void add(std::function<void()> wake) {
    const std::lock_guard lock(mutex_);
    if (is_open_) return wake();
    wakes_.push_back(std::move(wake));
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::function<void()>> wakes_;
  bool is_open_ = false;
};

/// What happens to an operation instead of being carried out as asked.
struct Mishap {
  int error = 0;          ///< fails with this errno
  Index most_bytes = -1;  ///< moves at most so many
  Index others_first =
      0;  ///< is slow: waits until so many more were started, or nothing else is left
  std::chrono::microseconds delay{0};  ///< before it starts, and all behind it
  Gate* gate = nullptr;                ///< hangs until it is open
};

/// A backend on which operations meet with mishaps: `plan` is asked for each, counted from 0.
class FaultyBackend final : public storage::Backend {
 public:
  using Plan = std::function<Mishap(Index number, const storage::Operation&)>;

  FaultyBackend(std::unique_ptr<storage::Backend> inner, Plan plan)
      : inner_(std::move(inner)), plan_(std::move(plan)) {}

  [[nodiscard]] const char* name() const override { return inner_->name(); }
  [[nodiscard]] Index capacity() const override { return inner_->capacity(); }

  void start(const storage::Operation& operation, std::uint64_t tag) override {
    const Mishap mishap = plan_(number_++, operation);
    for (Slow& each : slow_) --each.left;
    std::this_thread::sleep_for(mishap.delay);
    if (mishap.error != 0) {
      failed_.push_back({tag, -mishap.error});
      return inner_->wake();
    }
    storage::Operation changed = operation;
    if (mishap.most_bytes >= 0) changed.bytes = std::min(changed.bytes, mishap.most_bytes);
    if (changed.bytes == 0 && operation.bytes > 0) {
      failed_.push_back({tag, 0});
      return inner_->wake();
    }
    if (mishap.gate != nullptr) {
      hung_.push_back({changed, tag, mishap.gate});
      return mishap.gate->add([this] { inner_->wake(); });
    }
    if (mishap.others_first > 0)
      slow_.push_back({changed, tag, mishap.others_first});
    else
      begin(changed, tag);
  }

  std::vector<storage::Completion> wait() override {
    while (!slow_.empty() && (slow_.front().left <= 0 || under_way_ == 0)) {
      begin(slow_.front().operation, slow_.front().tag);
      slow_.pop_front();
    }
    std::erase_if(hung_, [this](const Hung& each) {
      const bool goes_on = each.gate->is_open();
      if (goes_on) begin(each.operation, each.tag);
      return goes_on;
    });
    std::vector<storage::Completion> completed = inner_->wait();
    under_way_ -= static_cast<Index>(completed.size());
    completed.insert(completed.end(), failed_.begin(), failed_.end());
    failed_.clear();
    return completed;
  }
  void wake() override { inner_->wake(); }

 private:
  struct Slow {
    storage::Operation operation;
    std::uint64_t tag;
    Index left;
  };
  struct Hung {
    storage::Operation operation;
    std::uint64_t tag;
    Gate* gate;
  };
  void begin(const storage::Operation& operation, std::uint64_t tag) {
    ++under_way_;
    inner_->start(operation, tag);
  }

  std::unique_ptr<storage::Backend> inner_;
  Plan plan_;
  std::vector<storage::Completion> failed_;
  std::deque<Slow> slow_;
  std::vector<Hung> hung_;
  Index number_ = 0;
  Index under_way_ = 0;
};

}  // namespace dos::test
