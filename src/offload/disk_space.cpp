// SPDX-License-Identifier: Apache-2.0
#include "offload/disk_space.hpp"

#include <fmt/ranges.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <system_error>

#include "base/error.hpp"
#include "base/units.hpp"

namespace dos::offload {
namespace {

dev_t device_of(const std::filesystem::path& folder, const char* key) {
  struct stat info {};
  if (::stat(folder.c_str(), &info) != 0)
    fail("{}: cannot tell where '{}' lies: {}; name another folder", key, folder.string(),
         std::generic_category().message(errno));
  return info.st_dev;
}

constexpr const char* kStateDisks = "sched.disks";
constexpr const char* kActivationDisks = "train.activation_disks";
/// More than any disk has; sums of some do not overflow.
constexpr Index kMostFree = Index{1} << 55;

/// Of the disks, when each has `level` bytes or what its size allows.
Index filled_to(Index level, std::span<const DiskPlace> disks,
                std::span<const std::size_t> places) {
  Index bytes = 0;
  for (const std::size_t i : places) bytes += std::min(level, disks[i].bytes.value_or(level));
  return bytes;
}

}  // namespace

Index free_in(const std::filesystem::path& folder, const char* key) {
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(folder, error);
  expect(!error, "{}: cannot tell what is free in '{}': {}; name another folder", key,
         folder.string(), error.message());
  return static_cast<Index>(space.available);
}

std::vector<FileSystem> file_systems_of(std::span<const DiskPlace> disks, const char* key) {
  std::map<dev_t, FileSystem> systems;
  for (std::size_t i = 0; i < disks.size(); ++i) {
    const dev_t device = device_of(disks[i].folder, key);
    FileSystem& system = systems[device];
    if (system.disks.empty()) {
      system.device = device;
      system.free =
          std::min(disks[i].free ? *disks[i].free : free_in(disks[i].folder, key), kMostFree);
    }
    system.disks.push_back(i);
  }
  std::vector<FileSystem> result;
  for (auto& [device, system] : systems) result.push_back(std::move(system));
  return result;
}

std::vector<DiskRoom> rooms_for_states(std::span<const DiskPlace> disks) {
  expect_folders(disks, kStateDisks);
  std::vector<DiskRoom> rooms;
  for (const DiskPlace& disk : disks)
    rooms.push_back(
        {.device = device_of(disk.folder, kStateDisks), .free = free_in(disk.folder, kStateDisks)});
  return rooms;
}

std::string folders_on(const FileSystem& system, std::span<const DiskPlace> disks) {
  std::vector<std::string> folders;
  for (const std::size_t i : system.disks) folders.push_back("'" + disks[i].folder.string() + "'");
  return fmt::format("{}", fmt::join(folders, " and "));
}

Index even_room(std::span<const DiskPlace> disks, std::span<const FileSystem> systems) {
  const auto fits = [&](Index level) {
    return std::ranges::all_of(systems, [&](const FileSystem& system) {
      return filled_to(level, disks, system.disks) <= system.free;
    });
  };
  // The highest level that all have room for; no disk takes more than its file system has.
  Index low = 0;
  Index high = 0;
  for (const FileSystem& system : systems) high = std::max(high, system.free);
  while (low < high) {
    const Index middle = low + (high - low + 1) / 2;
    if (fits(middle))
      low = middle;
    else
      high = middle - 1;
  }
  Index room = 0;
  for (const FileSystem& system : systems) room += filled_to(low, disks, system.disks);
  return room;
}

std::vector<FileSystem> left_for_activations(std::span<const DiskPlace> disks,
                                             std::span<const DiskPlace> of_states, Index states,
                                             Index ranks) {
  std::vector<FileSystem> systems = file_systems_of(disks, kActivationDisks);
  for (FileSystem& system : systems) system.free /= ranks;
  if (states == 0) return systems;
  for (const FileSystem& other : file_systems_of(of_states, kStateDisks)) {
    const Index taken = std::min(states, filled_to(states, of_states, other.disks));
    for (FileSystem& system : systems)
      if (system.device == other.device) system.free = std::max<Index>(0, system.free - taken);
  }
  return systems;
}

void expect_activation_folders(std::span<const DiskPlace> disks) {
  expect_folders(disks, kActivationDisks);
}

void expect_room_for_activations(std::span<const DiskPlace> disks,
                                 std::span<const FileSystem> systems, Index bytes) {
  const Index room = even_room(disks, systems);
  std::vector<std::string> places;
  places.reserve(systems.size());
  for (const FileSystem& system : systems)
    places.push_back(
        fmt::format("{} ({} free)", folders_on(system, disks), format_bytes(system.free)));
  expect(bytes <= room,
         "{}: {} of activations are to be moved to {}, where there is room for {}, evenly and as "
         "far as sizes allow: make room, raise a size, name another disk, or move fewer blocks "
         "(train.activations=disk:N)",
         kActivationDisks, format_bytes(bytes), fmt::join(places, " and "), format_bytes(room));
}

}  // namespace dos::offload
