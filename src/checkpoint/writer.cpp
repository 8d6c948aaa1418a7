// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/writer.hpp"

#include <algorithm>
#include <utility>

#include "base/log.hpp"

namespace dos::checkpoint {
namespace {

using Clock = std::chrono::steady_clock;

static_assert(Writer::kMostUnderWay <= ranks::RootTexts::kMostConversations);

}  // namespace

Writer::Writer(const Surroundings& around, const tensor::ParameterSet& parameters,
               const optim::Optimizer& optimizer)
    : around_(around), parameters_(parameters), optimizer_(optimizer) {
  around_.kept = &kept_;
}

Writer::~Writer() {
  settle();
}

Index Writer::buffers_within(double bytes) {
  const double each = bytes / static_cast<double>(kMostUnderWay * kPieceBytes);
  return std::max(PartWriter::kLeastBuffers, static_cast<Index>(each));
}

void Writer::wait_for_oldest() const {
  Attempt& oldest = *attempts_.front();
  if (oldest.over()->wait_for(patience_)) return;
  if (around_.exchange == nullptr || around_.exchange->rank() == 0)
    log::warn("waiting for the checkpoint that is under way: {}", oldest.text());
  oldest.over()->wait();
}

/// Takes what has ended, from the oldest on; waits for the oldest if there would be none.
void Writer::collect(bool waits) {
  if (waits && !attempts_.empty()) wait_for_oldest();
  while (!attempts_.empty() && attempts_.front()->over()->is_set()) {
    ended_.push_back(attempts_.front()->outcome());
    ended_.back().room_s = room_s_.front();
    room_s_.pop_front();
    // A device that is slow, and does not hang, is to have a checkpoint some time.
    if (attempts_.front()->has_held_up()) around_.patience_of_updates *= kMorePatience;
    lingering_.push_back(std::move(attempts_.front()));
    attempts_.pop_front();
  }
  std::erase_if(lingering_, [](const auto& attempt) { return attempt->is_idle(); });
}

bool Writer::has_room() {
  collect(/*waits=*/false);
  return std::ssize(attempts_) < kMostUnderWay;
}

bool Writer::wait_for_room(std::chrono::duration<double> most) {
  const Clock::time_point start = Clock::now();
  if (!has_room()) attempts_.front()->over()->wait_for(most);
  waited_s_ += std::chrono::duration<double>(Clock::now() - start).count();
  return has_room();
}

void Writer::begin(io::CheckpointStore& store, io::CheckpointManifest manifest, bool mark_best,
                   const StateFiles& taken, NodeFolders folders) {
  const Clock::time_point start = Clock::now();
  while (!has_room()) collect(/*waits=*/true);
  waited_s_ += std::chrono::duration<double>(Clock::now() - start).count();
  room_s_.push_back(std::exchange(waited_s_, 0));
  begun_ = manifest.step;
  std::shared_ptr<Event> before;
  if (!attempts_.empty()) before = attempts_.back()->over();
  attempts_.push_back(std::make_unique<Attempt>(
      around_, store, std::move(manifest), written_contents(parameters_, optimizer_, taken),
      sums_.get(), mark_best, Agreement(around_.exchange, number_++, std::move(folders)),
      std::move(before)));
}

std::span<const std::unique_ptr<rt::Handle>> Writer::sums(rt::Session& session) {
  if (sums_ == nullptr) sums_ = std::make_unique<StepSums>(session, parameters_, optimizer_);
  return sums_->handles();
}

void Writer::updates_submitted() {
  collect(/*waits=*/false);
  for (const auto& attempt : attempts_) attempt->hurry(optimizer_);
}

void Writer::confirm(Index step) {
  for (const auto& attempt : attempts_)
    if (attempt->step() <= step) attempt->confirm();
}

std::vector<Outcome> Writer::take_ended() {
  collect(/*waits=*/false);
  return std::exchange(ended_, {});
}

void Writer::settle() {
  for (const auto& attempt : attempts_) attempt->cancel();
  while (!attempts_.empty()) collect(/*waits=*/true);
  lingering_.clear();
}

}  // namespace dos::checkpoint
