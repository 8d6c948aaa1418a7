// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unordered_map>
#include <vector>

#include "base/types.hpp"

namespace dos::sched_starpu {

/// Tells when the forward that follows a step's first update is over: tasks have read working
/// parameters of each subgroup since. Of programs whose tasks read others, such as copies gathered
/// from several ranks, it sees nothing.
class ForwardWatch {
 public:
  /// An update of the subgroup writes these.
  void writes(Index subgroup, const void* weights) {
    subgroup_of_.try_emplace(weights, subgroup);
    if (subgroup < std::ssize(is_read_)) return;
    is_read_.resize(static_cast<std::size_t>(subgroup) + 1);
    unread_ = std::ssize(is_read_);
  }
  void begin_step() {
    is_read_.assign(is_read_.size(), false);
    unread_ = std::ssize(is_read_);
  }
  /// A task has read the buffer.
  void read(const void* buffer) {
    const auto found = subgroup_of_.find(buffer);
    if (found == subgroup_of_.end() || is_read_[static_cast<std::size_t>(found->second)]) return;
    is_read_[static_cast<std::size_t>(found->second)] = true;
    --unread_;
  }

  [[nodiscard]] bool sees() const { return unread_ < std::ssize(is_read_); }
  [[nodiscard]] bool is_over() const { return sees() && unread_ == 0; }

 private:
  std::unordered_map<const void*, Index> subgroup_of_;
  std::vector<bool> is_read_;  ///< by subgroup
  Index unread_ = 0;
};

}  // namespace dos::sched_starpu
