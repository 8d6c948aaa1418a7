// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "base/types.hpp"

namespace dos::offload {

/// Gives slots of host memory to what waits for one: visits of states, each of a round. The oldest
/// round goes first. A visit gets none before all of earlier rounds have theirs: else slots could
/// hold states whose update waits for one that finds none.
///
/// Within a round come first those that are due, as nothing but their states keeps their updates
/// from running, in the order of updates: while backward runs these are the last layers, the most
/// recent first, so that those that are left for the time behind backward are spread over all
/// layers. Then come those that will be due next, once all of the round are known: backward goes
/// against the order of updates. Whichever has a slot, its update waits for no other of the round.
/// Not thread-safe.
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
  /// All visits of one more round are expected; those that ask at once have asked.
  void end_round() { ++ended_; }
  /// `turn`: place in the order of updates. Pre: it is expected.
  void ask(Visit& visit, Index round, Index turn, bool is_due = true) {
    waiting_.insert({place_of(round, turn, is_due), &visit});
  }
  /// It is due. Does nothing where it does not wait.
  void fall_due(Visit& visit, Index round, Index turn) {
    if (waiting_.erase({place_of(round, turn, /*is_due=*/false), &visit}) > 0)
      ask(visit, round, turn);
  }
  void give_back(Index slot) { free_.push_back(slot); }

  /// The next visit that gets a slot; nullopt: none does now.
  std::optional<Grant> next() {
    if (free_.empty() || waiting_.empty()) return std::nullopt;
    const auto first = waiting_.begin();
    const auto [round, is_early, turn] = first->first;
    if (is_early && round >= ended_) return std::nullopt;
    // One of an earlier round that does not ask yet must find a slot.
    if (*without_slot_.begin() < round) return std::nullopt;
    without_slot_.erase(without_slot_.find(round));
    const Grant grant{first->second, free_.back()};
    waiting_.erase(first);
    free_.pop_back();
    return grant;
  }

 private:
  using Place = std::tuple<Index, bool, Index>;
  static Place place_of(Index round, Index turn, bool is_due) {
    return {round, !is_due, is_due ? turn : -turn};
  }

  std::multiset<Index> without_slot_;           ///< rounds of visits
  std::set<std::pair<Place, Visit*>> waiting_;  ///< the first is next
  std::vector<Index> free_;
  Index ended_ = 0;  ///< rounds
};

}  // namespace dos::offload
