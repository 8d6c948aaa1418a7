// SPDX-License-Identifier: Apache-2.0
#include "offload/region_files.hpp"

#include <fmt/ranges.h>
#include <sys/resource.h>

#include <algorithm>
#include <string>
#include <system_error>
#include <utility>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/temporary.hpp"
#include "base/units.hpp"

namespace dos::offload {
namespace {

/// Of a file: one through the page cache, one past it.
constexpr Index kDescriptors = 2;
/// For all else that a program has open.
constexpr Index kOtherDescriptors = 512;

/// Whether the process may have so many descriptors open; asks for them where it may ask.
bool may_open(Index descriptors) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return false;
  const auto needed = static_cast<rlim_t>(descriptors);
  if (needed <= limit.rlim_cur) return true;
  if (needed > limit.rlim_max) return false;
  limit.rlim_cur = needed;
  return ::setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

/// Regions of so many bytes that a disk can have: what is needed, as far as its size, and what is
/// free, go.
Index regions_on(const DiskPlace& disk, Index region, Index needed) {
  const std::string folder = disk.folder.string();
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(disk.folder, error);
  expect(!error, "sched.disks: cannot tell what is free in '{}': {}; name another folder", folder,
         error.message());
  const auto free = static_cast<Index>(space.available);
  if (!disk.bytes) return std::min(needed, free / region);
  const Index wanted = std::min(needed, *disk.bytes / region);
  expect(wanted * region <= free,
         "sched.disks: {} are to be taken in '{}', where {} are free: make room, give a smaller "
         "size, or raise sched.host_memory",
         format_bytes(wanted * region), folder, format_bytes(free));
  return wanted;
}

bool has_unlinked_files(const std::filesystem::path& folder) {
  try {
    static_cast<void>(storage::File::create_unlinked(folder, 0));
  } catch (const Error&) {
    return false;
  }
  return true;
}

}  // namespace

std::vector<Index> share_regions(std::span<const DiskPlace> disks, Index region_bytes,
                                 Index subgroups, Index on_their_way) {
  expect_folders(disks);
  const Index needed = subgroups + on_their_way;
  std::vector<Index> capacity;
  std::vector<std::string> folders;
  Index total = 0;
  for (const DiskPlace& disk : disks) {
    capacity.push_back(regions_on(disk, region_bytes, needed));
    folders.push_back(disk.folder.string());
    total += capacity.back();
  }
  expect(total >= needed,
         "sched.disks: states of {} subgroups, and {} on their way, need {}, but there is room for "
         "{} in {}: raise sizes, make room, name another disk, or raise sched.host_memory",
         subgroups, on_their_way, format_bytes(needed * region_bytes),
         format_bytes(total * region_bytes), fmt::join(folders, ", "));
  return capacity;
}

RegionFiles::RegionFiles(std::span<const DiskPlace> disks, const std::vector<Index>& capacity,
                         Index region_bytes)
    : region_bytes_(region_bytes), places_(disks.size()), spare_(disks.size()) {
  Index regions = 0;
  for (const Index each : capacity) regions += each;
  // Each may be on its way to another owner while the one behind it is there.
  are_single_ = may_open(2 * kDescriptors * regions + kOtherDescriptors);
  for (const DiskPlace& disk : disks) {
    folders_.push_back(std::filesystem::canonical(disk.folder));
    if (const char* memory = storage::memory_file_system(folders_.back()))
      log::warn("sched.disks: {} is in memory ({}): states there save none",
                folders_.back().string(), memory);
    are_single_ = are_single_ && has_unlinked_files(folders_.back());
  }
  for (std::size_t i = 0; i < disks.size(); ++i) {
    std::shared_ptr<StateFile> whole;
    if (!are_single_)
      whole = std::make_shared<StateFile>(
          storage::File::create_nameless(folders_[i] / "states", capacity[i] * region_bytes));
    for (Index number = 0; number < capacity[i]; ++number)
      places_[i].push_back(are_single_ ? Place{.file = create(i)}
                                       : Place{.file = whole, .offset = number * region_bytes});
  }
}

std::shared_ptr<StateFile> RegionFiles::create(std::size_t disk) const {
  return std::make_shared<StateFile>(storage::File::create_unlinked(folders_[disk], region_bytes_));
}

bool RegionFiles::can_name_in(const std::filesystem::path& folder) const {
  if (!are_single_) return false;
  const std::filesystem::path name = random_name_beside(folder / "states");
  for (std::size_t i = 0; i < folders_.size(); ++i) {
    if (places_[i].empty()) continue;
    try {
      storage::File::create_unlinked(folders_[i], 0).link(name);
    } catch (const Error&) {
      return false;
    }
    std::error_code ignored;
    std::filesystem::remove(name, ignored);
  }
  return true;
}

RegionFiles::Place& RegionFiles::place_of(const Region& region) {
  return places_[static_cast<std::size_t>(region.disk)][static_cast<std::size_t>(region.number)];
}

const RegionFiles::Place& RegionFiles::at(const Region& region) const {
  return places_[static_cast<std::size_t>(region.disk)][static_cast<std::size_t>(region.number)];
}

std::shared_ptr<StateFile> RegionFiles::give(const Region& region) {
  require(are_single_, "a file for each region");
  Place& place = place_of(region);
  if (!place.is_given) {
    const auto disk = static_cast<std::size_t>(region.disk);
    spare_[disk].push_back(create(disk));
    place.is_given = true;
  }
  return place.file;
}

void RegionFiles::put(const Region& region, std::shared_ptr<StateFile> file) {
  require(are_single_, "a file for each region");
  Place& place = place_of(region);
  spare_[static_cast<std::size_t>(region.disk)].push_back(std::move(place.file));
  place = {.file = std::move(file), .is_given = true};
}

std::optional<Index> RegionFiles::disk_of(const storage::File& file) const {
  for (std::size_t i = 0; i < places_.size(); ++i)
    if (!places_[i].empty() && places_[i].front().file->file().device() == file.device())
      return static_cast<Index>(i);
  return std::nullopt;
}

void RegionFiles::clear(const Region& region) {
  Place& place = place_of(region);
  if (!place.is_given) return;
  auto& spare = spare_[static_cast<std::size_t>(region.disk)];
  place = {.file = std::move(spare.back())};
  spare.pop_back();
}

}  // namespace dos::offload
