// SPDX-License-Identifier: Apache-2.0
#include "offload/away_states.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "offload/away_visit.hpp"
#include "rt/device.hpp"

namespace dos::offload {

AwayStates::AwayStates(rt::Session& session, const shape::Layout& layout, HomePlan plan,
                       std::span<const DiskPlace> disks, std::vector<StateForm> forms,
                       std::span<const rt::Device> devices,
                       std::unique_ptr<storage::Backend> backend)
    : session_(session),
      layout_(layout),
      plan_(std::move(plan)),
      states_(layout.subgroups.size()),
      queue_(plan_.slots),
      engine_({}, std::move(backend)) {
  require(!plan_.are_all_in_host_memory(), "states that are away");
  if (!plan_.on_disks().empty())
    create_files(disks, regions_of(layout, plan_, forms, std::ssize(disks)));
  Index disk_turn = 0;
  for (Index turn = 0; turn < std::ssize(plan_.away); ++turn) {
    const auto [place, device] = plan_.away[static_cast<std::size_t>(turn)];
    const auto index = static_cast<std::size_t>(place);
    states_[index] = std::make_unique<Subgroup>(
        Subgroup{.index = place,
                 .turn = turn,
                 .bytes = plan_.buffers() * padded_bytes(layout.subgroups[index])});
    if (device < 0) {
      states_[index]->disk_turn = disk_turn++;
      states_[index]->form = std::move(forms.at(index));
      continue;
    }
    const rt::Device& keeper = devices[static_cast<std::size_t>(device)];
    states_[index]->kept = Home{.node = keeper.node, .keeper = keeper.worker};
  }
  session_.memory().add(MemoryCategory::kStates, plan_.memory());
  for (Index slot = 0; slot < plan_.slots; ++slot) slots_.emplace_back(plan_.slot_bytes);
  thread_ = std::thread([this] { run(); });
}

void AwayStates::create_files(std::span<const DiskPlace> disks, const shape::StateRegions& needed) {
  require(!disks.empty(), "disks for states that live there");
  const RegionCounts capacity = share_regions(disks, needed);
  regions_.emplace(disks, capacity, needed.bytes);
  board_.emplace(capacity, needed.bytes, needed.size_of);
}

AwayStates::~AwayStates() {
  {
    const std::lock_guard lock(mutex_);
    require(visits_ == 0, "no round is under way");
    is_ending_ = true;
    changed_.notify_all();
  }
  thread_.join();
  session_.memory().remove(MemoryCategory::kStates, plan_.memory());
}

tensor::StateHomes::Home AwayStates::home_of(Index subgroup) {
  const Subgroup* each = states_[static_cast<std::size_t>(subgroup)].get();
  if (each == nullptr) return {};
  Home home = each->kept.value_or(Home{});
  // Any: until the first visit nobody uses it.
  home.lent = slots_.front().data();
  return home;
}

bool AwayStates::is_on_disk(Index subgroup) const {
  const Subgroup* each = states_[static_cast<std::size_t>(subgroup)].get();
  return each != nullptr && !each->kept;
}

void AwayStates::adopt(Index subgroup, const rt::Handle& buffer) {
  Subgroup& each = *states_[static_cast<std::size_t>(subgroup)];
  require(std::ssize(each.handles) < plan_.buffers(), "buffers of the plan");
  each.handles.push_back(&buffer);
}

void AwayStates::open(Index subgroup, const rt::Handle* last) {
  Subgroup* each = states_[static_cast<std::size_t>(subgroup)].get();
  if (each != nullptr && !each->is_there) begin_visit(*each, last);
}

void AwayStates::open_on_host(Index subgroup) {
  if (Subgroup* each = states_[static_cast<std::size_t>(subgroup)].get())
    begin_visit(*each, nullptr);
}

void AwayStates::begin_visit(Subgroup& subgroup, const rt::Handle* last) {
  if (subgroup.visit != nullptr) return;
  require(std::ssize(subgroup.handles) == plan_.buffers(), "the buffers of the plan");
  auto visit = std::make_unique<Visit>(Visit{.subgroup = subgroup, .round = round_, .step = step_});
  visit->is_first = subgroup.kept && !std::exchange(subgroup.is_there, true);
  {
    const std::lock_guard lock(mutex_);
    ++visits_;
    queue_.expect(round_);
  }
  if (last != nullptr) visit->notice = std::make_unique<Notice>(*this, *visit);
  Visit& begun = *visit.release();
  subgroup.visit = &begun;
  open_.push_back(&begun);
  if (subgroup.kept && !begun.is_first)
    request(begun, Stage::kOpen, subgroup.kept->node, rt::Mode::kReadWrite);
  else
    request(begun, Stage::kOpen, rt::kHostNode, rt::Mode::kWrite);
  if (last != nullptr) rt::await_contents(*last, *begun.notice);
}

void AwayStates::store(Index subgroup) {
  Subgroup* each = states_[static_cast<std::size_t>(subgroup)].get();
  if (each == nullptr || each->kept) return;
  require(each->visit != nullptr, "states that were opened");
  ++each->stores;
  request(*each->visit, Stage::kStore, rt::kHostNode, rt::Mode::kRead);
}

void AwayStates::end_round() {
  for (Visit* visit : open_) {
    visit->subgroup.visit = nullptr;
    if (const auto& kept = visit->subgroup.kept)
      request(*visit, Stage::kClose, kept->node, rt::Mode::kReadWrite);
    else
      request(*visit, Stage::kClose, rt::kHostNode, rt::Mode::kWrite);
  }
  if (open_.empty()) return;
  open_.clear();
  ++round_;
  const std::lock_guard lock(mutex_);
  events_.push_back({});
  changed_.notify_all();
}

std::shared_ptr<StateVersion> AwayStates::keep(Index subgroup) {
  Subgroup& each = *states_[static_cast<std::size_t>(subgroup)];
  require(is_on_disk(subgroup), "states on a disk");
  if (each.stores == 0) {
    open(subgroup, nullptr);
    store(subgroup);
  }
  const Wish wish{&each, each.stores, std::make_shared<StateVersion>()};
  const std::lock_guard lock(mutex_);
  new_wishes_.push_back(wish);
  changed_.notify_all();
  return wish.version;
}

bool AwayStates::take(Index subgroup, storage::DirectFile file,
                      std::vector<codelets::ContentSum> sums) {
  // The thread has nothing to do meanwhile.
  const std::lock_guard lock(mutex_);
  Subgroup& each = *states_[static_cast<std::size_t>(subgroup)];
  require(visits_ == 0, "all is settled");
  require(sums.size() == each.form.piece_bytes.size(), "sums of the form");
  const std::optional<Index> disk = regions_->disk_of(file);
  if (!disk) return false;
  if (each.region) {
    regions_->clear(*each.region);
    board_->give_back(*each.region);
  }
  each.stores = each.stored = 0;
  each.region = board_->take_on(*disk, each.disk_turn);
  if (!each.region) return false;
  regions_->put(*each.region, std::make_shared<StateFile>(std::move(file), /*is_complete=*/true));
  each.sums = std::move(sums);
  each.stores = each.stored = 1;
  return true;
}

void AwayStates::request(Visit& visit, Stage stage, int node, rt::Mode mode) {
  visit.nodes[static_cast<std::size_t>(stage)] = node;
  // The last access of a closed visit may be its end: nothing of it is used after that.
  const std::vector<const rt::Handle*>& handles = visit.subgroup.handles;
  std::vector<Access*> accesses;
  for (std::size_t i = 0; i < handles.size(); ++i) {
    visit.accesses.push_back(std::make_unique<Access>(*this, visit, stage));
    accesses.push_back(visit.accesses.back().get());
  }
  for (std::size_t i = 0; i < handles.size(); ++i)
    rt::request_access(*handles[i], node, mode, *accesses[i]);
}

void AwayStates::granted(Visit& visit, Stage stage) noexcept {
  const std::lock_guard lock(mutex_);
  if (++visit.granted[static_cast<std::size_t>(stage)] < plan_.buffers()) return;
  events_.push_back({.visit = &visit, .stage = stage});
  changed_.notify_all();
}

void AwayStates::noticed(Visit& visit) noexcept {
  const std::lock_guard lock(mutex_);
  events_.push_back({.visit = &visit, .is_notice = true});
  changed_.notify_all();
}

void AwayStates::transferred(Visit& visit, Stage stage, const Region& region,
                             const std::string& fault) {
  const std::lock_guard lock(mutex_);
  ended_.push_back({.disk = region.disk,
                    .direction = stage == Stage::kOpen ? Direction::kRead : Direction::kWrite,
                    .bytes = visit.subgroup.bytes,
                    .at = now()});
  events_.push_back({.visit = &visit, .stage = stage, .is_transfer = true, .fault = fault});
  changed_.notify_all();
}

void AwayStates::settle() {
  end_round();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return visits_ == 0; });
}

std::string AwayStates::fault() const {
  const std::lock_guard lock(mutex_);
  return fault_;
}

DiskTraffic AwayStates::traffic() const {
  const std::lock_guard lock(mutex_);
  return traffic_;
}

}  // namespace dos::offload
