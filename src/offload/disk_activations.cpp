// SPDX-License-Identifier: Apache-2.0
#include "offload/disk_activations.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <new>
#include <numeric>
#include <utility>

#include "base/crc32c.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/units.hpp"
#include "offload/disk_space.hpp"
#include "rt/device.hpp"

namespace dos::offload {
namespace {

/// Places in files are multiples of it: more than any alignment of direct transfers.
constexpr Index kPlaceMultiple = 64 << 10;

}  // namespace

struct DiskActivations::Slot {
  Index bytes;
  int node;  ///< who reads it
  std::size_t disk;
  Index place;  ///< in the disk's file
  std::uint32_t sum = 0;
  std::vector<std::byte> rescued{};  ///< what could not be written; empty: nothing
  bool is_lost = false;
};

/// A transfer of one slot, from the request of its access on.
struct DiskActivations::Visit final : rt::AccessListener {
  Visit(DiskActivations& the_owner, Slot& the_slot, const rt::Handle& the_buffer, bool is_a_store,
        Index the_step)
      : owner(the_owner), slot(the_slot), buffer(the_buffer), stores(is_a_store), step(the_step) {}
  void granted(void* data) noexcept override {
    memory = {static_cast<std::byte*>(data), static_cast<std::size_t>(slot.bytes)};
    owner.post({this, /*is_transfer=*/false, ""});
  }

  DiskActivations& owner;
  Slot& slot;
  const rt::Handle& buffer;
  const bool stores;
  const Index step;
  std::span<std::byte> memory{};
};

DiskActivations::DiskActivations(std::span<const DiskPlace> disks,
                                 std::unique_ptr<storage::Backend> backend,
                                 std::optional<Index> spare)
    : disks_(disks.begin(), disks.end()),
      spare_(spare),
      sizes_(disks.size(), 0),
      engine_({}, std::move(backend)),
      thread_([this] { run(); }) {
  require(!disks_.empty(), "disks for activations");
}

DiskActivations::~DiskActivations() {
  settle();
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

/// The one that has least of those whose size allows as much more; where none does, of all.
std::size_t DiskActivations::disk_for(Index bytes) const {
  const auto rank = [&](std::size_t disk) {
    const std::optional<Index>& limit = disks_[disk].bytes;
    return std::pair(limit && sizes_[disk] + bytes > *limit, sizes_[disk]);
  };
  std::size_t best = 0;
  for (std::size_t disk = 1; disk < disks_.size(); ++disk)
    if (rank(disk) < rank(best)) best = disk;
  return best;
}

Index DiskActivations::add(Index bytes, int node) {
  require(files_.empty(), "slots before their files");
  const Index place = ceil_div(bytes, kPlaceMultiple) * kPlaceMultiple;
  const std::size_t disk = disk_for(place);
  slots_.push_back(std::make_unique<Slot>(
      Slot{.bytes = bytes, .node = node, .disk = disk, .place = sizes_[disk]}));
  sizes_[disk] += place;
  return std::ssize(slots_) - 1;
}

void DiskActivations::reserve() {
  expect_activation_folders(disks_);
  expect_room_for_activations(disks_, left_for_activations(disks_, {}, 0, 1),
                              std::accumulate(sizes_.begin(), sizes_.end(), Index{0}));
  for (std::size_t disk = 0; disk < disks_.size(); ++disk) {
    const std::filesystem::path& folder = disks_[disk].folder;
    const std::optional<Index>& limit = disks_[disk].bytes;
    // Slots are not cut in two.
    expect(
        !limit || sizes_[disk] <= *limit,
        "train.activation_disks: {} are to be moved to '{}', of which its size allows {}: raise a "
        "size, name another disk, or move fewer blocks (train.activations=disk:N)",
        format_bytes(sizes_[disk]), folder.string(), format_bytes(limit.value_or(0)));
    if (const char* memory = storage::memory_file_system(folder))
      log::warn("train.activation_disks: {} is in memory ({}): activations there save none",
                folder.string(), memory);
    try {
      files_.push_back(storage::DirectFile::create_nameless(
          std::filesystem::canonical(folder) / "activations", sizes_[disk]));
    } catch (const Error& error) {
      fail(
          "train.activation_disks: {} cannot be taken in '{}', also for other ranks and programs: "
          "{}; make room, name another folder, or move fewer blocks (train.activations=disk:N)",
          format_bytes(sizes_[disk]), folder.string(), error.what());
    }
  }
}

bool DiskActivations::is_usable() const {
  const std::lock_guard lock(mutex_);
  return is_usable_;
}

void DiskActivations::store(Index slot, const rt::Handle& buffer) {
  request(*slots_[static_cast<std::size_t>(slot)], buffer, /*stores=*/true);
}

void DiskActivations::load(Index slot, const rt::Handle& buffer) {
  Slot& loaded = *slots_[static_cast<std::size_t>(slot)];
  request(loaded, buffer, /*stores=*/false);
  if (loaded.node != rt::kHostNode) rt::touch(buffer, loaded.node, rt::Mode::kRead);
}

void DiskActivations::request(Slot& slot, const rt::Handle& buffer, bool stores) {
  require(buffer.bytes() == slot.bytes && !files_.empty(), "a buffer of the slot's size");
  auto visit = std::make_unique<Visit>(*this, slot, buffer, stores, step_);
  {
    const std::lock_guard lock(mutex_);
    ++visits_;
  }
  // It deletes itself in finish().
  rt::request_access(buffer, rt::kHostNode, stores ? rt::Mode::kRead : rt::Mode::kWrite,
                     *visit.release());
}

void DiskActivations::post(Event event) {
  const std::lock_guard lock(mutex_);
  events_.push_back(std::move(event));
  changed_.notify_all();
}

void DiskActivations::settle() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return visits_ == 0; });
}

std::string DiskActivations::fault() const {
  const std::lock_guard lock(mutex_);
  return fault_;
}

DiskTraffic DiskActivations::traffic() const {
  const std::lock_guard lock(mutex_);
  return traffic_;
}

void DiskActivations::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return !events_.empty() || is_ending_; });
    if (events_.empty()) return;
    const Event event = std::move(events_.front());
    events_.pop_front();
    lock.unlock();
    if (event.is_transfer)
      end(*event.visit, event.fault);
    else
      begin(*event.visit);
    lock.lock();
  }
}

storage::Label DiskActivations::label_of(const Visit& visit) const {
  return {.purpose = storage::Purpose::kActivations,
          .step = visit.step,
          .buffer = visit.buffer.name(),
          .category = MemoryCategory::kActivations};
}

void DiskActivations::begin(Visit& visit) {
  Slot& slot = visit.slot;
  const storage::DirectFile& file = files_[slot.disk];
  const auto done = [this, &visit](const std::string& fault) {
    post({&visit, /*is_transfer=*/true, fault});
  };
  if (visit.stores) {
    slot.is_lost = false;
    slot.sum = crc32c(visit.memory);
    engine_.write(file, slot.place, visit.memory, done, label_of(visit));
  } else if (slot.is_lost) {
    lose(visit, "");
    finish(visit);
  } else if (!slot.rescued.empty()) {
    std::ranges::copy(slot.rescued, visit.memory.begin());
    std::vector<std::byte>().swap(slot.rescued);
    rescued_ -= slot.bytes;
    finish(visit);
  } else {
    engine_.read(file, slot.place, visit.memory, done, label_of(visit));
  }
}

void DiskActivations::end(Visit& visit, const std::string& fault) {
  if (visit.stores)
    written(visit, fault);
  else
    read(visit, fault);
  finish(visit);
}

void DiskActivations::written(const Visit& visit, const std::string& fault) {
  if (fault.empty()) {
    const std::lock_guard lock(mutex_);
    traffic_.written_bytes += visit.slot.bytes;
    return;
  }
  visit.slot.is_lost = !rescue(visit);
  const std::lock_guard lock(mutex_);
  if (is_usable_)
    log::warn("{}: activations stay in memory, and are computed again from the next step on",
              fault);
  is_usable_ = false;
  if (visit.slot.is_lost && fault_.empty())
    fault_ = fmt::format(
        "{} is lost: {}, and {}: make room on the disk, name another in train.activation_disks, or "
        "raise train.host_memory",
        visit.buffer.name(), fault,
        spare_ ? fmt::format("the {} of memory that the run leaves do not hold what cannot be "
                             "written",
                             format_bytes(*spare_))
               : "there is no memory for it");
}

/// Whether there is memory for it.
bool DiskActivations::rescue(const Visit& visit) {
  Slot& slot = visit.slot;
  if (spare_ && rescued_ + slot.bytes > *spare_) return false;
  try {
    slot.rescued.assign(visit.memory.begin(), visit.memory.end());
  } catch (const std::bad_alloc&) {
    return false;
  }
  rescued_ += slot.bytes;
  return true;
}

void DiskActivations::read(const Visit& visit, const std::string& fault) {
  std::string why = fault;
  if (why.empty()) {
    const std::uint32_t found = crc32c(visit.memory);
    if (found != visit.slot.sum)
      why = fmt::format(
          "{} is not what was written there: CRC-32C {:08x} instead of {:08x}, at byte {}",
          disks_[visit.slot.disk].folder.string(), found, visit.slot.sum, visit.slot.place);
  }
  if (!why.empty()) return lose(visit, why);
  const std::lock_guard lock(mutex_);
  traffic_.read_bytes += visit.slot.bytes;
}

/// Bytes of all ones are numbers that are none.
void DiskActivations::lose(const Visit& visit, const std::string& why) {
  std::memset(visit.memory.data(), 0xFF, visit.memory.size());
  const std::lock_guard lock(mutex_);
  if (fault_.empty() && !why.empty())
    fault_ = fmt::format("{} is lost: {}", visit.buffer.name(), why);
}

void DiskActivations::finish(Visit& visit) {
  const std::unique_ptr<Visit> over(&visit);
  rt::end_access(visit.buffer, rt::kHostNode);
  const std::lock_guard lock(mutex_);
  --visits_;
  changed_.notify_all();
}

}  // namespace dos::offload
