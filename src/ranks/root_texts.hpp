// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "ranks/exchange.hpp"

namespace dos::ranks {

/// Texts between rank 0 and the others, for a thread of each rank that works beside training. All
/// ranks make the same calls in the same order. Every member throws Error after a failure.
class RootTexts {
 public:
  /// `conversation`: those at the same time have numbers that follow each other. Each may call
  /// each member kCallsOfConversation times. `exchange` may be null: one rank. Pre: at most
  /// Tags::kLeastRounds / (2 * kCallsOfConversation) conversations at a time.
  RootTexts(Exchange* exchange, Index conversation);
  static constexpr Index kCallsOfConversation = 2;

  [[nodiscard]] bool is_root() const { return exchange_ == nullptr || exchange_->rank() == 0; }

  /// The text of rank 0, on every rank.
  std::string from_root(const std::string& mine);
  /// The texts of all ranks, by rank, on rank 0; nothing on the others.
  std::vector<std::string> to_root(const std::string& mine);

 private:
  void send(std::string text, Index first_peer, Index last_peer, const MessageName& name);
  std::string receive(Index peer, const MessageName& first);

  Exchange* exchange_;
  Index next_from_root_;
  Index next_to_root_;
};

}  // namespace dos::ranks
