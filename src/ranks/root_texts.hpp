// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "ranks/exchange.hpp"

namespace dos::ranks {

/// Texts between rank 0 and others, for a thread of each rank that works beside training. All of
/// them make the same calls in the same order. Every member throws Error after a failure.
class RootTexts {
 public:
  /// Between all ranks, of a checkpoint. `conversation`: those at the same time have numbers that
  /// follow each other. Each may call each member kCallsOfConversation times. `exchange` may be
  /// null: one rank. Pre: at most kMostConversations at a time.
  RootTexts(Exchange* exchange, Index conversation);
  static constexpr Index kCallsOfConversation = 4;
  static constexpr Index kMostConversations = 2;

  /// Between rank 0 and `peers`, of copies, for any number of calls. One at a time.
  RootTexts(Exchange& exchange, std::vector<Index> peers);

  [[nodiscard]] bool is_root() const { return exchange_ == nullptr || exchange_->rank() == 0; }

  /// The text of rank 0, on every rank.
  std::string from_root(const std::string& mine);
  /// The texts of all, in the order of ranks, on rank 0; nothing on the others.
  std::vector<std::string> to_root(const std::string& mine);

 private:
  [[nodiscard]] MessageName next(Index& round) const;
  void send(std::string text, const std::vector<Index>& peers, const MessageName& name);
  std::string receive(Index peer, const MessageName& first);

  Exchange* exchange_;
  std::vector<Index> peers_;  ///< of rank 0
  Kind kind_;
  Index number_ = 0;
  Index next_from_root_ = 0;
  Index next_to_root_ = 0;
};

}  // namespace dos::ranks
