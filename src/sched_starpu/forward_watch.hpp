// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unordered_map>
#include <unordered_set>

#include "base/types.hpp"

namespace dos::sched_starpu {

/// Tells when the forward that follows a step's first update is over: tasks have read working
/// parameters of each subgroup of the step since. Of programs whose tasks read others, such as
/// copies gathered from several ranks, it sees nothing.
class ForwardWatch {
 public:
  /// What was written before may be gone, with its subgroups.
  void begin_step() {
    subgroup_of_.clear();
    unread_.clear();
    sees_ = false;
  }
  /// An update of the subgroup writes these in this step.
  void writes(Index subgroup, const void* weights) {
    subgroup_of_[weights] = subgroup;
    unread_.insert(subgroup);
  }
  /// A task has read the buffer.
  void read(const void* buffer) {
    const auto found = subgroup_of_.find(buffer);
    if (found != subgroup_of_.end() && unread_.erase(found->second) > 0) sees_ = true;
  }

  [[nodiscard]] bool sees() const { return sees_; }
  [[nodiscard]] bool is_over() const { return sees_ && unread_.empty(); }

 private:
  std::unordered_map<const void*, Index> subgroup_of_;
  std::unordered_set<Index> unread_;
  bool sees_ = false;
};

}  // namespace dos::sched_starpu
