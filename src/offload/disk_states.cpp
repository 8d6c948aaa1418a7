// SPDX-License-Identifier: Apache-2.0
#include "offload/disk_states.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>

#include "base/error.hpp"
#include "rt/device.hpp"

namespace dos::offload {

/// A subgroup that is on disk.
struct DiskStates::Subgroup {
  Index index = 0;
  Index turn = 0;  ///< place in the order of updates
  Index bytes = 0;
  std::vector<const rt::Handle*> handles{};
  StateForm form{};
  // The submitting thread's:
  Visit* visit = nullptr;  ///< that is open
  Index stores = 0;        ///< that were asked for
  // The thread's:
  Index stored = 0;
  std::optional<Region> region{};            ///< nullopt: all zeros
  std::vector<codelets::ContentSum> sums{};  ///< of what is there, by piece
  bool is_lost = false;
};

/// Waits for an access to one handle.
struct DiskStates::Access final : rt::AccessListener {
  Access(DiskStates& the_owner, Visit& the_visit, Stage the_stage)
      : owner(the_owner), visit(the_visit), stage(the_stage) {}
  void granted(void* /*data*/) noexcept override { owner.granted(visit, stage); }

  DiskStates& owner;
  Visit& visit;
  Stage stage;
};

/// The time between open() and the end of the round's last access.
struct DiskStates::Visit {
  Subgroup& subgroup;
  Index round;
  Index step;
  std::vector<std::unique_ptr<Access>> accesses{};
  std::array<Index, 3> granted{};  ///< by stage; under the lock
  Index slot = -1;
  std::optional<Region> target{};  ///< of a write
};

DiskStates::DiskStates(rt::Session& session, const shape::Layout& layout, HomePlan plan,
                       std::span<const DiskPlace> disks, std::vector<StateForm> forms,
                       std::unique_ptr<storage::Backend> backend)
    : session_(session),
      layout_(layout),
      plan_(std::move(plan)),
      states_(layout.subgroups.size()),
      engine_({}, std::move(backend)) {
  require(plan_.has_disks() && !disks.empty(), "states that are on disks");
  for (Index turn = 0; turn < std::ssize(plan_.subgroups); ++turn) {
    const auto index = static_cast<std::size_t>(plan_.subgroups[static_cast<std::size_t>(turn)]);
    states_[index] = std::make_unique<Subgroup>(
        Subgroup{.index = static_cast<Index>(index),
                 .turn = turn,
                 .bytes = plan_.buffers() * padded_bytes(layout.subgroups[index]),
                 .form = std::move(forms.at(index))});
  }
  create_files(disks);
  session_.memory().add(MemoryCategory::kStates, plan_.memory());
  for (Index slot = 0; slot < plan_.slots; ++slot) {
    slots_.emplace_back(plan_.slot_bytes);
    free_slots_.push_back(slot);
  }
  thread_ = std::thread([this] { run(); });
}

void DiskStates::create_files(std::span<const DiskPlace> disks) {
  Index header = 0;
  for (const auto& subgroup : states_)
    if (subgroup != nullptr) header = std::max(header, subgroup->form.header_bytes);
  const Index region = header + plan_.slot_bytes;
  const std::vector<Index> capacity =
      share_regions(disks, region, std::ssize(plan_.subgroups), plan_.slots);
  regions_.emplace(disks, capacity, region);
  board_.emplace(capacity);
}

DiskStates::~DiskStates() {
  {
    const std::lock_guard lock(mutex_);
    require(visits_ == 0, "no round is under way");
    is_ending_ = true;
    changed_.notify_all();
  }
  thread_.join();
  session_.memory().remove(MemoryCategory::kStates, plan_.memory());
}

std::byte* DiskStates::lent_memory(Index subgroup) {
  return states_[static_cast<std::size_t>(subgroup)] == nullptr ? nullptr : slots_.front().data();
}

void DiskStates::adopt(Index subgroup, const rt::Handle& buffer) {
  Subgroup& each = *states_[static_cast<std::size_t>(subgroup)];
  require(std::ssize(each.handles) < plan_.buffers(), "buffers of the plan");
  each.handles.push_back(&buffer);
}

void DiskStates::open(Index subgroup) {
  Subgroup* each = states_[static_cast<std::size_t>(subgroup)].get();
  if (each == nullptr || each->visit != nullptr) return;
  require(std::ssize(each->handles) == plan_.buffers(), "the buffers of the plan");
  auto visit = std::make_unique<Visit>(Visit{.subgroup = *each, .round = round_, .step = step_});
  {
    const std::lock_guard lock(mutex_);
    ++visits_;
    unread_.insert(round_);
  }
  each->visit = visit.get();
  open_.push_back(visit.get());
  request(*visit.release(), Stage::kOpen, rt::Mode::kWrite);
}

void DiskStates::store(Index subgroup) {
  Subgroup* each = states_[static_cast<std::size_t>(subgroup)].get();
  if (each == nullptr) return;
  require(each->visit != nullptr, "states that were opened");
  ++each->stores;
  request(*each->visit, Stage::kStore, rt::Mode::kRead);
}

void DiskStates::end_round() {
  for (Visit* visit : open_) {
    visit->subgroup.visit = nullptr;
    request(*visit, Stage::kClose, rt::Mode::kWrite);
  }
  if (!open_.empty()) ++round_;
  open_.clear();
}

std::shared_ptr<StateVersion> DiskStates::keep(Index subgroup) {
  Subgroup& each = *states_[static_cast<std::size_t>(subgroup)];
  if (each.stores == 0) {
    open(subgroup);
    store(subgroup);
  }
  const Wish wish{&each, each.stores, std::make_shared<StateVersion>()};
  const std::lock_guard lock(mutex_);
  new_wishes_.push_back(wish);
  changed_.notify_all();
  return wish.version;
}

bool DiskStates::take(Index subgroup, storage::File file, std::vector<codelets::ContentSum> sums) {
  // The thread has nothing to do meanwhile.
  const std::lock_guard lock(mutex_);
  Subgroup& each = *states_[static_cast<std::size_t>(subgroup)];
  require(visits_ == 0 && each.stores == 0, "all is settled, and nothing is there");
  require(sums.size() == each.form.piece_bytes.size(), "sums of the form");
  const std::optional<Index> disk = regions_->disk_of(file);
  if (disk) each.region = board_->take_on(*disk);
  if (!each.region) return false;
  regions_->put(*each.region, std::make_shared<StateFile>(std::move(file), /*is_complete=*/true));
  each.sums = std::move(sums);
  each.stores = each.stored = 1;
  return true;
}

void DiskStates::request(Visit& visit, Stage stage, rt::Mode mode) {
  // The last access of a closed visit may be its end: nothing of it is used after that.
  const std::vector<const rt::Handle*>& handles = visit.subgroup.handles;
  std::vector<Access*> accesses;
  for (std::size_t i = 0; i < handles.size(); ++i) {
    visit.accesses.push_back(std::make_unique<Access>(*this, visit, stage));
    accesses.push_back(visit.accesses.back().get());
  }
  for (std::size_t i = 0; i < handles.size(); ++i)
    rt::request_access(*handles[i], rt::kHostNode, mode, *accesses[i]);
}

void DiskStates::granted(Visit& visit, Stage stage) noexcept {
  const std::lock_guard lock(mutex_);
  if (++visit.granted[static_cast<std::size_t>(stage)] < plan_.buffers()) return;
  events_.push_back({&visit, stage, /*is_transfer=*/false, ""});
  changed_.notify_all();
}

void DiskStates::post(Event event) {
  const std::lock_guard lock(mutex_);
  events_.push_back(std::move(event));
  changed_.notify_all();
}

void DiskStates::settle() {
  end_round();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return visits_ == 0; });
}

std::string DiskStates::fault() const {
  const std::lock_guard lock(mutex_);
  return fault_;
}

DiskTraffic DiskStates::traffic() const {
  const std::lock_guard lock(mutex_);
  return traffic_;
}

void DiskStates::run() {
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
      lock.unlock();
      handle(event);
      give_slots();
    } else {
      return;
    }
    lock.lock();
  }
}

void DiskStates::handle(const Event& event) {
  Visit& visit = *event.visit;
  switch (event.stage) {
    case Stage::kOpen:
      if (event.is_transfer) return loaded(visit, event.fault);
      waiting_.insert({{visit.round, visit.subgroup.turn}, &visit});
      return;
    case Stage::kStore:
      return event.is_transfer ? written(visit, event.fault) : write(visit);
    case Stage::kClose:
      return close(visit);
  }
}

void DiskStates::give_slots() {
  while (!free_slots_.empty() && !waiting_.empty()) {
    Visit& visit = *waiting_.begin()->second;
    {
      const std::lock_guard lock(mutex_);
      // One of an earlier round that has not been granted yet must find a slot.
      if (*unread_.begin() < visit.round) return;
      unread_.erase(unread_.find(visit.round));
    }
    waiting_.erase(waiting_.begin());
    visit.slot = free_slots_.back();
    free_slots_.pop_back();
    load(visit);
  }
}

std::span<std::byte> DiskStates::memory_of(const Visit& visit) const {
  return {slots_[static_cast<std::size_t>(visit.slot)].data(),
          static_cast<std::size_t>(visit.subgroup.bytes)};
}

storage::Label DiskStates::label_of(const Visit& visit) {
  return {.purpose = storage::Purpose::kStates,
          .step = visit.step,
          .buffer = visit.subgroup.handles.front()->name(),
          .category = MemoryCategory::kStates};
}

double DiskStates::now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void DiskStates::load(Visit& visit) {
  Subgroup& subgroup = visit.subgroup;
  const std::span<std::byte> memory = memory_of(visit);
  std::byte* home = memory.data();
  for (const rt::Handle* handle : subgroup.handles) {
    handle->move_home(home);
    home += padded_bytes(layout_.subgroups[static_cast<std::size_t>(subgroup.index)]);
  }
  if (!subgroup.region || subgroup.is_lost) {
    // Bytes of all ones are numbers that are none.
    std::memset(memory.data(), subgroup.is_lost ? 0xFF : 0, memory.size());
    end_accesses(visit);
    return;
  }
  const Region& region = *subgroup.region;
  const RegionFiles::Place& place = regions_->at(region);
  board_->begin(region.disk, now());
  engine_.read(
      place.file->file(), place.offset + subgroup.form.header_bytes, memory,
      [this, &visit](const std::string& fault) {
        post({&visit, Stage::kOpen, true, fault});
      },
      label_of(visit));
}

void DiskStates::loaded(Visit& visit, const std::string& fault) {
  Subgroup& subgroup = visit.subgroup;
  const Region& region = *subgroup.region;
  const std::span<std::byte> memory = memory_of(visit);
  board_->end(region.disk, std::ssize(memory), now());
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
  end_accesses(visit);
}

void DiskStates::write(Visit& visit) {
  Subgroup& subgroup = visit.subgroup;
  const std::span<std::byte> memory = memory_of(visit);
  // FP32 parameters come first.
  const Index parameters = plan_.with_parameters ? subgroup.bytes / plan_.buffers() : Index{0};
  subgroup.sums = sums_of(subgroup.form, memory, parameters);
  visit.target = board_->take(subgroup.region);
  require(visit.target.has_value(), "a region for each slot beside those of all states");
  const RegionFiles::Place& place = regions_->at(*visit.target);
  board_->begin(visit.target->disk, now());
  engine_.write(
      place.file->file(), place.offset + subgroup.form.header_bytes, memory,
      [this, &visit](const std::string& fault) {
        post({&visit, Stage::kStore, true, fault});
      },
      label_of(visit));
}

void DiskStates::written(Visit& visit, const std::string& fault) {
  Subgroup& subgroup = visit.subgroup;
  board_->end(visit.target->disk, subgroup.bytes, now());
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
  end_accesses(visit);
}

/// Gives what was wished for, or keeps the wish until that is stored.
void DiskStates::grant(const Wish& wish) {
  const Subgroup& subgroup = *wish.subgroup;
  if (subgroup.stored < wish.stores) return wishes_.push_back(wish);
  if (subgroup.is_lost) return wish.version->set_fault(fault());
  try {
    wish.version->set(regions_->give(*subgroup.region), subgroup.sums);
  } catch (const std::exception& error) {
    wish.version->set_fault(error.what());
  }
}

void DiskStates::close(Visit& visit) {
  free_slots_.push_back(visit.slot);
  end_accesses(visit);
  const std::unique_ptr<Visit> over(&visit);
  const std::lock_guard lock(mutex_);
  --visits_;
  changed_.notify_all();
}

void DiskStates::lose(Subgroup& subgroup, const std::string& fault) {
  subgroup.is_lost = true;
  const std::lock_guard lock(mutex_);
  if (fault_.empty())
    fault_ = fmt::format("states of {} are lost: {}", layout_.members_of(subgroup.index), fault);
}

void DiskStates::end_accesses(const Visit& visit) {
  for (const rt::Handle* handle : visit.subgroup.handles) rt::end_access(*handle, rt::kHostNode);
}

}  // namespace dos::offload
