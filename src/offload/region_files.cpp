// SPDX-License-Identifier: Apache-2.0
#include "offload/region_files.hpp"

#include <fmt/ranges.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <numeric>
#include <string>
#include <system_error>
#include <utility>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/temporary.hpp"
#include "base/units.hpp"
#include "offload/disk_space.hpp"

namespace dos::offload {
namespace {

/// Of a file: one through the page cache, one past it.
constexpr Index kDescriptors = 2;
/// Checkpoints that may have taken all files at once.
constexpr Index kMostTaken = 2;
/// For all else that a program has open.
constexpr Index kOtherDescriptors = 512;

/// Whether the process may have so many descriptors open; asks for them where it may ask. Else
/// `most` is what it may have.
bool may_open(Index descriptors, Index& most) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return false;
  const auto needed = static_cast<rlim_t>(descriptors);
  if (needed <= limit.rlim_cur) return true;
  most = static_cast<Index>(limit.rlim_max);
  if (needed > limit.rlim_max) return false;
  limit.rlim_cur = needed;
  return ::setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

constexpr const char* kKey = "sched.disks";

/// Bytes that each disk may take of `needed`: of a file system that several are on what is free is
/// taken once.
std::vector<Index> room_on(std::span<const DiskPlace> disks, Index needed, Index largest) {
  std::vector<Index> room(disks.size());
  for (const FileSystem& system : file_systems_of(disks, kKey)) {
    Index asked = 0;
    Index open = 0;
    for (const std::size_t i : system.disks) {
      if (!disks[i].bytes) ++open;
      room[i] = std::min(needed, disks[i].bytes.value_or(0));
      asked += room[i];
    }
    expect(asked <= system.free,
           "sched.disks: {} are to be taken in {}, where {} are free for each rank: make room, "
           "give a smaller size, or raise sched.host_memory",
           format_bytes(asked), folders_on(system, disks), format_bytes(system.free));
    // Regions are not cut in two.
    for (const std::size_t i : system.disks)
      if (!disks[i].bytes)
        room[i] =
            std::min((system.free - asked) / open, open == 1 ? needed : needed / open + largest);
  }
  return room;
}

bool has_unlinked_files(const std::filesystem::path& folder) {
  try {
    static_cast<void>(storage::DirectFile::create_unlinked(folder, 0));
  } catch (const Error&) {
    return false;
  }
  return true;
}

}  // namespace

RegionCounts share_regions(std::span<const DiskPlace> disks, const shape::StateRegions& regions) {
  expect_folders(disks, kKey);
  for (const DiskPlace& disk : disks)
    if (const char* memory = storage::memory_file_system(disk.folder))
      log::warn("sched.disks: {} is in memory ({}): states there save none", disk.folder.string(),
                memory);
  const Index needed = regions.total_bytes();
  std::vector<Index> room = room_on(disks, needed, regions.bytes.front());
  RegionCounts counts(disks.size());
  Index total = 0;
  std::vector<Index> missing = regions.counts;
  for (std::size_t i = 0; i < disks.size(); ++i) {
    total += room[i];
    const double part = static_cast<double>(room[i]) / static_cast<double>(needed);
    for (std::size_t size = 0; size < regions.counts.size(); ++size) {
      const Index all = regions.counts[size];
      const Index some = std::min(all, static_cast<Index>(part * static_cast<double>(all)));
      counts[i].push_back(room[i] >= needed ? all : some);
      room[i] -= counts[i].back() * regions.bytes[size];
      missing[size] -= counts[i].back();
    }
  }
  // What is left for parts of each size may hold a whole one.
  bool fits = true;
  for (std::size_t size = 0; size < missing.size(); ++size)
    for (; fits && missing[size] > 0; --missing[size]) {
      const auto most = std::ranges::max_element(room);
      fits = *most >= regions.bytes[size];
      if (!fits) break;
      *most -= regions.bytes[size];
      ++counts[static_cast<std::size_t>(most - room.begin())][size];
    }
  std::vector<std::string> folders;
  for (const DiskPlace& disk : disks) folders.push_back(disk.folder.string());
  expect(fits,
         "sched.disks: states of {} subgroups, and those that are written meanwhile, need {}, but "
         "there is room for {} in {}: raise sizes, make room, name another disk, or raise "
         "sched.host_memory",
         regions.size_of.size(), format_bytes(needed), format_bytes(total),
         fmt::join(folders, ", "));
  return counts;
}

RegionFiles::RegionFiles(std::span<const DiskPlace> disks, const RegionCounts& capacity,
                         std::vector<Index> bytes)
    : bytes_(std::move(bytes)), places_(disks.size()), spare_(disks.size()) {
  for (const DiskPlace& disk : disks) folders_.push_back(std::filesystem::canonical(disk.folder));
  choose_kind(capacity);
  for (std::size_t i = 0; i < disks.size(); ++i) {
    const Index free = free_in(folders_[i], kKey);
    try {
      create_all(i, capacity[i]);
    } catch (const Error& error) {
      Index needed = 0;
      for (std::size_t size = 0; size < bytes_.size(); ++size)
        needed += capacity[i][size] * bytes_[size];
      fail(
          "sched.disks: {} cannot be taken in '{}', where {} were free, also for other ranks and "
          "programs: {}; make room, give a smaller size, name another folder, or raise "
          "sched.host_memory",
          format_bytes(needed), folders_[i].string(), format_bytes(free), error.what());
    }
  }
}

/// Whether regions are files of their own. Says why not, as checkpoints cannot take them then.
void RegionFiles::choose_kind(const RegionCounts& capacity) {
  Index regions = 0;
  for (const std::vector<Index>& disk : capacity)
    regions += std::accumulate(disk.begin(), disk.end(), Index{0});
  // Those of checkpoints under way are another's, while the ones behind them are there.
  const Index descriptors = (1 + kMostTaken) * kDescriptors * regions + kOtherDescriptors;
  Index most = 0;
  if (!may_open(descriptors, most)) {
    are_single_ = false;
    log::info("sched.disks: {}, as the process may have {} files open: raise ulimit -n to {}",
              kStatesAnew, most, descriptors);
    return;
  }
  for (const std::filesystem::path& folder : folders_) {
    if (has_unlinked_files(folder)) continue;
    are_single_ = false;
    log::info(
        "sched.disks: {}, as {} has no files without names (O_TMPFILE): name a folder on "
        "ext4, XFS, Btrfs or tmpfs",
        kStatesAnew, folder.string());
    return;
  }
}

void RegionFiles::create_all(std::size_t disk, const std::vector<Index>& counts) {
  places_[disk].resize(bytes_.size());
  spare_[disk].resize(bytes_.size());
  std::shared_ptr<StateFile> whole;
  if (!are_single_) {
    Index all = 0;
    for (std::size_t size = 0; size < bytes_.size(); ++size) all += counts[size] * bytes_[size];
    whole = std::make_shared<StateFile>(
        storage::DirectFile::create_nameless(folders_[disk] / "states", all));
  }
  Index offset = 0;
  for (std::size_t size = 0; size < bytes_.size(); ++size)
    for (Index number = 0; number < counts[size]; ++number) {
      places_[disk][size].push_back(are_single_ ? Place{.file = create(disk, size)}
                                                : Place{.file = whole, .offset = offset});
      offset += bytes_[size];
    }
}

std::shared_ptr<StateFile> RegionFiles::create(std::size_t disk, std::size_t size) const {
  return std::make_shared<StateFile>(
      storage::DirectFile::create_unlinked(folders_[disk], bytes_[size]));
}

bool RegionFiles::has_regions(std::size_t disk) const {
  return std::ranges::any_of(places_[disk], [](const auto& each) { return !each.empty(); });
}

RegionFiles::Naming RegionFiles::can_name_in(const std::filesystem::path& folder) const {
  if (!are_single_) return {};  // which choose_kind() has said
  const std::filesystem::path name = random_name_beside(folder / "states");
  Naming naming;
  std::vector<std::string> others;
  for (std::size_t i = 0; i < folders_.size(); ++i) {
    if (!has_regions(i)) continue;
    try {
      if (storage::DirectFile::create_unlinked(folders_[i], 0).link(name)) {
        std::filesystem::remove(name);
        naming.can = true;
        continue;
      }
      others.push_back(folders_[i].string());
    } catch (const std::exception& error) {
      others.push_back(fmt::format("{} ({})", folders_[i].string(), error.what()));
    }
  }
  naming.lacking = fmt::format("{}", fmt::join(others, ", "));
  return naming;
}

RegionFiles::Place& RegionFiles::place_of(const Region& region) {
  return places_[static_cast<std::size_t>(region.disk)][static_cast<std::size_t>(region.size)]
                [static_cast<std::size_t>(region.number)];
}

const RegionFiles::Place& RegionFiles::at(const Region& region) const {
  return places_[static_cast<std::size_t>(region.disk)][static_cast<std::size_t>(region.size)]
                [static_cast<std::size_t>(region.number)];
}

std::vector<std::shared_ptr<StateFile>>& RegionFiles::spare_of(const Region& region) {
  return spare_[static_cast<std::size_t>(region.disk)][static_cast<std::size_t>(region.size)];
}

std::shared_ptr<StateFile> RegionFiles::give(const Region& region) {
  require(are_single_, "a file for each region");
  Place& place = place_of(region);
  if (!place.is_given) {
    spare_of(region).push_back(
        create(static_cast<std::size_t>(region.disk), static_cast<std::size_t>(region.size)));
    place.is_given = true;
  }
  return place.file;
}

void RegionFiles::put(const Region& region, std::shared_ptr<StateFile> file) {
  require(are_single_, "a file for each region");
  Place& place = place_of(region);
  spare_of(region).push_back(std::move(place.file));
  place = {.file = std::move(file), .is_given = true};
}

std::optional<Index> RegionFiles::disk_of(const storage::DirectFile& file) const {
  for (std::size_t disk = 0; disk < places_.size(); ++disk)
    for (const std::vector<Place>& places : places_[disk])
      if (!places.empty() && places.front().file->file().device() == file.device())
        return static_cast<Index>(disk);
  return std::nullopt;
}

void RegionFiles::clear(const Region& region) {
  Place& place = place_of(region);
  if (!place.is_given) return;
  auto& spare = spare_of(region);
  place = {.file = std::move(spare.back())};
  spare.pop_back();
}

}  // namespace dos::offload
