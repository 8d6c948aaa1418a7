// SPDX-License-Identifier: Apache-2.0
// The thread of AwayStates: it alone gives slots, reads and writes.
#include <fmt/format.h>

#include <chrono>
#include <cstring>
#include <exception>
#include <utility>

#include "base/error.hpp"
#include "offload/away_visit.hpp"
#include "rt/device.hpp"

namespace dos::offload {

void AwayStates::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return !new_wishes_.empty() || !events_.empty() || is_ending_; });
    if (!new_wishes_.empty()) {
      const Wish wish = std::move(new_wishes_.front());
      new_wishes_.pop_front();
      lock.unlock();
      grant(wish);
    } else if (!events_.empty()) {
      const Event event = std::move(events_.front());
      events_.pop_front();
      if (event.visit == nullptr) queue_.end_round();
      lock.unlock();
      if (event.visit != nullptr) handle(event);
      give_slots();
    } else {
      return;
    }
    lock.lock();
  }
}

void AwayStates::handle(const Event& event) {
  Visit& visit = *event.visit;
  note_ended();
  if (event.is_notice) return fall_due(visit);
  switch (event.stage) {
    case Stage::kOpen:
      if (event.is_transfer) return loaded(visit, event.fault);
      return ask(visit);
    case Stage::kStore:
      return event.is_transfer ? written(visit, event.fault) : write(visit);
    case Stage::kClose:
      return close(visit);
  }
}

void AwayStates::ask(Visit& visit) {
  const std::lock_guard lock(mutex_);
  queue_.ask(visit, visit.round, visit.subgroup.turn, !visit.notice);
}

void AwayStates::fall_due(Visit& visit) {
  visit.notice.reset();
  if (visit.is_closed) return end(visit);
  const std::lock_guard lock(mutex_);
  queue_.fall_due(visit, visit.round, visit.subgroup.turn);
}

void AwayStates::give_slots() {
  for (;;) {
    std::optional<SlotQueue<Visit>::Grant> grant;
    {
      const std::lock_guard lock(mutex_);
      grant = queue_.next();
    }
    if (!grant) return;
    grant->visit->slot = grant->slot;
    load(*grant->visit);
  }
}

std::span<std::byte> AwayStates::memory_of(const Visit& visit) const {
  return {slots_[static_cast<std::size_t>(visit.slot)].data(),
          static_cast<std::size_t>(visit.subgroup.bytes)};
}

storage::Label AwayStates::label_of(const Visit& visit) {
  return {.purpose = storage::Purpose::kStates,
          .step = visit.step,
          .buffer = visit.subgroup.handles.front()->name(),
          .category = MemoryCategory::kStates};
}

double AwayStates::now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Tells the board of transfers that are over: when they were, whatever was done since.
void AwayStates::note_ended() {
  std::vector<Ended> ended;
  {
    const std::lock_guard lock(mutex_);
    std::swap(ended, ended_);
  }
  for (const Ended& each : ended) board_->end(each.disk, each.direction, each.bytes, each.at);
}

void AwayStates::begin(const Region& region, Direction direction) {
  note_ended();
  board_->begin(region.disk, direction, now());
}

void AwayStates::load(Visit& visit) {
  Subgroup& subgroup = visit.subgroup;
  const std::span<std::byte> memory = memory_of(visit);
  std::byte* home = memory.data();
  for (const rt::Handle* handle : subgroup.handles) {
    handle->move_home(home);
    home += padded_bytes(layout_.subgroups[static_cast<std::size_t>(subgroup.index)]);
  }
  if (subgroup.kept && !visit.is_first) return end_accesses(visit, Stage::kOpen);
  if (!subgroup.region || subgroup.is_lost) {
    // Bytes of all ones are numbers that are none.
    std::memset(memory.data(), subgroup.is_lost ? 0xFF : 0, memory.size());
    return end_accesses(visit, Stage::kOpen);
  }
  const Region& region = *subgroup.region;
  const RegionFiles::Place& place = regions_->at(region);
  begin(region, Direction::kRead);
  engine_.read(
      place.file->file(), place.offset + subgroup.form.header_bytes, memory,
      [this, &visit, region](const std::string& fault) {
        transferred(visit, Stage::kOpen, region, fault);
      },
      label_of(visit));
}

void AwayStates::loaded(Visit& visit, const std::string& fault) {
  Subgroup& subgroup = visit.subgroup;
  const Region& region = *subgroup.region;
  const std::span<std::byte> memory = memory_of(visit);
  std::string why = fault;
  if (why.empty()) {
    const std::string wrong = difference(subgroup.form, subgroup.sums, memory);
    if (!wrong.empty())
      why = fmt::format("a file in {} is not what was written there: {}",
                        regions_->at(region).file->file().path().string(), wrong);
  }
  if (why.empty()) {
    const std::lock_guard lock(mutex_);
    traffic_.read_bytes += std::ssize(memory);
  } else {
    lose(subgroup, why);
    std::memset(memory.data(), 0xFF, memory.size());
  }
  end_accesses(visit, Stage::kOpen);
}

void AwayStates::write(Visit& visit) {
  Subgroup& subgroup = visit.subgroup;
  const std::span<std::byte> memory = memory_of(visit);
  // FP32 parameters come first.
  const Index parameters = plan_.with_parameters ? subgroup.bytes / plan_.buffers() : Index{0};
  subgroup.sums = sums_of(subgroup.form, memory, parameters);
  waiting_.push_back(&visit);
  write_waiting();
}

/// One after another, as far as there are regions of their sizes. Others become free when what goes
/// to those in use is written.
void AwayStates::write_waiting() {
  note_ended();
  for (Visit* each : std::exchange(waiting_, {})) {
    Visit& visit = *each;
    Subgroup& subgroup = visit.subgroup;
    visit.target = board_->take(subgroup.disk_turn);
    if (!visit.target) {
      waiting_.push_back(each);
      continue;
    }
    const RegionFiles::Place& place = regions_->at(*visit.target);
    begin(*visit.target, Direction::kWrite);
    engine_.write(
        place.file->file(), place.offset + subgroup.form.header_bytes, memory_of(visit),
        [this, &visit](const std::string& fault) {
          transferred(visit, Stage::kStore, *visit.target, fault);
        },
        label_of(visit));
  }
}

void AwayStates::written(Visit& visit, const std::string& fault) {
  Subgroup& subgroup = visit.subgroup;
  if (subgroup.region) {
    regions_->clear(*subgroup.region);
    board_->give_back(*subgroup.region);
  }
  subgroup.region = visit.target;
  ++subgroup.stored;
  if (fault.empty()) {
    const std::lock_guard lock(mutex_);
    traffic_.written_bytes += subgroup.bytes;
  } else {
    lose(subgroup, fault);
  }
  for (const Wish& wish : std::exchange(wishes_, {})) grant(wish);
  write_waiting();
  end_accesses(visit, Stage::kStore);
}

/// Gives what was wished for, or keeps the wish until that is stored.
void AwayStates::grant(const Wish& wish) {
  const Subgroup& subgroup = *wish.subgroup;
  if (subgroup.stored < wish.stores) return wishes_.push_back(wish);
  if (subgroup.is_lost) return wish.version->set_fault(fault());
  try {
    wish.version->set(regions_->give(*subgroup.region), subgroup.sums);
  } catch (const std::exception& error) {
    wish.version->set_fault(error.what());
  }
}

void AwayStates::close(Visit& visit) {
  end_accesses(visit, Stage::kClose);
  visit.is_closed = true;
  {
    const std::lock_guard lock(mutex_);
    queue_.give_back(visit.slot);
  }
  // Else it is still told of what its tasks have waited for.
  if (!visit.notice) end(visit);
}

void AwayStates::end(Visit& visit) {
  const std::unique_ptr<Visit> over(&visit);
  const std::lock_guard lock(mutex_);
  --visits_;
  changed_.notify_all();
}

void AwayStates::lose(Subgroup& subgroup, const std::string& fault) {
  subgroup.is_lost = true;
  const std::lock_guard lock(mutex_);
  if (fault_.empty())
    fault_ = fmt::format("states of {} are lost: {}", layout_.members_of(subgroup.index), fault);
}

void AwayStates::end_accesses(const Visit& visit, Stage stage) {
  const int node = visit.nodes[static_cast<std::size_t>(stage)];
  for (const rt::Handle* handle : visit.subgroup.handles) rt::end_access(*handle, node);
}

}  // namespace dos::offload
