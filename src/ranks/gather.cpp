// SPDX-License-Identifier: Apache-2.0
#include "ranks/gather.hpp"

#include <utility>

namespace dos::ranks {
namespace {

using Direction = platform::MpiMessage::Direction;

/// Messages that send all[own rank] to every other rank, and receive theirs.
template <class T>
std::vector<Message> all_to_all(const Exchange& exchange, std::vector<T>& all, Kind kind,
                                Index round) {
  std::vector<Message> messages;
  const Index own = exchange.rank();
  for (Index peer = 0; peer < exchange.ranks(); ++peer) {
    if (peer == own) continue;
    messages.push_back({Direction::kReceive,
                        std::as_writable_bytes(std::span(all[static_cast<std::size_t>(peer)])),
                        peer,
                        {kind, peer, round}});
    messages.push_back({Direction::kSend,
                        std::as_writable_bytes(std::span(all[static_cast<std::size_t>(own)])),
                        peer,
                        {kind, own, round}});
  }
  return messages;
}

}  // namespace

std::vector<std::string> gather_texts(Exchange& exchange, const std::string& mine) {
  std::vector<std::vector<Index>> sizes(static_cast<std::size_t>(exchange.ranks()),
                                        std::vector<Index>(1));
  const auto own = static_cast<std::size_t>(exchange.rank());
  sizes[own] = {std::ssize(mine)};
  exchange.run(all_to_all(exchange, sizes, Kind::kText, 0));
  std::vector<std::string> texts;
  for (const auto& size : sizes) texts.emplace_back(static_cast<std::size_t>(size.front()), '\0');
  texts[own] = mine;
  exchange.run(all_to_all(exchange, texts, Kind::kText, 1));
  return texts;
}

std::string first_text(Exchange* exchange, const std::string& mine) {
  if (exchange == nullptr) return mine;
  for (std::string& text : gather_texts(*exchange, mine))
    if (!text.empty()) return std::move(text);
  return "";
}

class StepNotes::Step {
 public:
  Step(Exchange& exchange, Index step, const StepNote& mine)
      : notes_(static_cast<std::size_t>(exchange.ranks()), std::vector<StepNote>(1)) {
    notes_[static_cast<std::size_t>(exchange.rank())] = {mine};
    exchange.post(all_to_all(exchange, notes_, Kind::kNote, step), arrival_);
  }

  const std::vector<std::vector<StepNote>>& wait() {
    arrival_.wait();
    return notes_;
  }

 private:
  std::vector<std::vector<StepNote>> notes_;  ///< by rank, one each
  Arrival arrival_;
};

StepNotes::StepNotes(Exchange& exchange) : exchange_(exchange) {}

StepNotes::~StepNotes() {
  for (const auto& step : steps_) step->wait();
}

void StepNotes::post(Index step, const StepNote& mine) {
  steps_.push_back(std::make_unique<Step>(exchange_, step, mine));
}

std::vector<StepNote> StepNotes::take() {
  require(!steps_.empty(), "notes that were posted");
  std::vector<StepNote> notes;
  for (const auto& note : steps_.front()->wait()) notes.push_back(note.front());
  steps_.pop_front();
  exchange_.check();
  return notes;
}

}  // namespace dos::ranks
