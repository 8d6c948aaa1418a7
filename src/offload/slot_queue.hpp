// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/types.hpp"

namespace dos::offload {

/// Gives slots of host memory to what waits for one: visits of states, each of a round. The oldest
/// round goes first, and within a round the order of updates. A visit gets none before all of
/// earlier rounds have theirs: else slots could hold states whose update waits for one that finds
/// none. Not thread-safe.
template <class Visit>
class SlotQueue {
 public:
  struct Grant {
    Visit* visit;
    Index slot;  ///< from 0 on
  };

  explicit SlotQueue(Index slots) {
    for (Index slot = 0; slot < slots; ++slot) free_.push_back(slot);
  }

  /// A visit of this round is to ask.
  void expect(Index round) { without_slot_.insert(round); }
  /// `turn`: place in the order of updates. Pre: it is expected.
  void ask(Visit& visit, Index round, Index turn) { waiting_.insert({{round, turn}, &visit}); }
  void give_back(Index slot) { free_.push_back(slot); }

  /// The next visit that gets a slot; nullopt: none does now.
  std::optional<Grant> next() {
    if (free_.empty() || waiting_.empty()) return std::nullopt;
    const auto first = waiting_.begin();
    const Index round = first->first.first;
    // One of an earlier round that does not ask yet must find a slot.
    if (*without_slot_.begin() < round) return std::nullopt;
    without_slot_.erase(without_slot_.find(round));
    const Grant grant{first->second, free_.back()};
    waiting_.erase(first);
    free_.pop_back();
    return grant;
  }

 private:
  std::multiset<Index> without_slot_;                             ///< rounds of visits
  std::set<std::pair<std::pair<Index, Index>, Visit*>> waiting_;  ///< by round and turn
  std::vector<Index> free_;
};

}  // namespace dos::offload
