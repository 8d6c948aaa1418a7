// SPDX-License-Identifier: Apache-2.0
#include "ranks/root_texts.hpp"

#include <span>
#include <utility>

namespace dos::ranks {
namespace {

using Direction = platform::MpiMessage::Direction;

/// A text is two messages: its length, then itself.
constexpr Index kRoundsOfText = 2;

std::span<std::byte> bytes_of(Index& number) {
  return std::as_writable_bytes(std::span(&number, 1));
}

MessageName behind(MessageName name) {
  ++name.round;
  return name;
}

}  // namespace

// Those at the same time differ in their numbers, of which there are as many as ranks.
static_assert(RootTexts::kMostConversations <= 2);
static_assert(RootTexts::kCallsOfConversation * kRoundsOfText <= Tags::kLeastRounds);

RootTexts::RootTexts(Exchange* exchange, Index conversation)
    : exchange_(exchange),
      kind_(Kind::kCheckpoint),
      number_(conversation % kMostConversations),
      next_from_root_(conversation / kMostConversations * kCallsOfConversation * kRoundsOfText),
      next_to_root_(next_from_root_) {
  for (Index peer = 1; exchange != nullptr && peer < exchange->ranks(); ++peer)
    peers_.push_back(peer);
}

RootTexts::RootTexts(Exchange& exchange, std::vector<Index> peers)
    : exchange_(&exchange), peers_(std::move(peers)), kind_(Kind::kCopy) {}

/// A name for a text in this direction.
MessageName RootTexts::next(Index& round) const {
  return {kind_, number_, std::exchange(round, round + kRoundsOfText)};
}

void RootTexts::send(std::string text, const std::vector<Index>& peers, const MessageName& name) {
  Index size = std::ssize(text);
  std::vector<Message> messages;
  for (const Index peer : peers) {
    messages.push_back({Direction::kSend, bytes_of(size), peer, name});
    messages.push_back(
        {Direction::kSend, std::as_writable_bytes(std::span(text)), peer, behind(name)});
  }
  exchange_->run(std::move(messages));
}

std::string RootTexts::receive(Index peer, const MessageName& first) {
  Index size = 0;
  exchange_->run({{Direction::kReceive, bytes_of(size), peer, first}});
  std::string text(static_cast<std::size_t>(size), '\0');
  exchange_->run(
      {{Direction::kReceive, std::as_writable_bytes(std::span(text)), peer, behind(first)}});
  return text;
}

std::string RootTexts::from_root(const std::string& mine) {
  if (exchange_ == nullptr) return mine;
  const MessageName name = next(next_from_root_);
  if (!is_root()) return receive(0, name);
  send(mine, peers_, name);
  return mine;
}

std::vector<std::string> RootTexts::to_root(const std::string& mine) {
  if (exchange_ == nullptr) return {mine};
  const MessageName name = next(next_to_root_);
  if (!is_root()) {
    send(mine, {0}, name);
    return {};
  }
  std::vector<std::string> texts{mine};
  for (const Index peer : peers_) texts.push_back(receive(peer, name));
  return texts;
}

}  // namespace dos::ranks
