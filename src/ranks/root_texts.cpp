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

RootTexts::RootTexts(Exchange* exchange, Index conversation)
    : exchange_(exchange),
      next_from_root_(conversation * kCallsOfConversation * kRoundsOfText),
      next_to_root_(next_from_root_) {}

void RootTexts::send(std::string text, Index first_peer, Index last_peer, const MessageName& name) {
  Index size = std::ssize(text);
  std::vector<Message> messages;
  for (Index peer = first_peer; peer <= last_peer; ++peer) {
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
  const MessageName name{Kind::kCheckpoint, 0, next_from_root_};
  next_from_root_ += kRoundsOfText;
  if (!is_root()) return receive(0, name);
  send(mine, 1, exchange_->ranks() - 1, name);
  return mine;
}

std::vector<std::string> RootTexts::to_root(const std::string& mine) {
  if (exchange_ == nullptr) return {mine};
  const Index round = next_to_root_;
  next_to_root_ += kRoundsOfText;
  if (!is_root()) {
    send(mine, 0, 0, {Kind::kCheckpoint, exchange_->rank(), round});
    return {};
  }
  std::vector<std::string> texts{mine};
  for (Index peer = 1; peer < exchange_->ranks(); ++peer)
    texts.push_back(receive(peer, {Kind::kCheckpoint, peer, round}));
  return texts;
}

}  // namespace dos::ranks
