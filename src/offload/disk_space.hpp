// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/types.hpp"
#include "offload/disk_place.hpp"

namespace dos::offload {

/// Disks on one file system, which share what is free there.
struct FileSystem {
  std::vector<std::size_t> disks{};  ///< places among those of the run
  Index free = 0;                    ///< bytes
  std::uint64_t device = 0;
};

/// Bytes that are free where a folder lies. Throws Error naming `key` where nobody can tell.
Index free_in(const std::filesystem::path& folder, const char* key);
/// The file systems that the disks are on. Throws as above.
std::vector<FileSystem> file_systems_of(std::span<const DiskPlace> disks, const char* key);
/// What a disk has.
struct DiskRoom {
  std::uint64_t device = 0;  ///< of its file system
  Index free = 0;            ///< bytes
};
/// Of sched.disks, by disk. Throws Error, naming the key and the remedy, unless all are folders
/// that can be written to.
std::vector<DiskRoom> rooms_for_states(std::span<const DiskPlace> disks);
/// "'/a' and '/b'".
std::string folders_on(const FileSystem& system, std::span<const DiskPlace> disks);

/// Most bytes that the disks take when they are filled evenly, as far as their sizes allow, as
/// DiskActivations does.
Index even_room(std::span<const DiskPlace> disks, std::span<const FileSystem> systems);

/// The file systems of train.activation_disks with what `ranks` that share them leave each, beside
/// files of states, `states` bytes on the disks of `of_states`, of which each may take as much as
/// share_regions() lets it. Throws as above.
std::vector<FileSystem> left_for_activations(std::span<const DiskPlace> disks,
                                             std::span<const DiskPlace> of_states, Index states,
                                             Index ranks);

/// Throws Error naming train.activation_disks, the folder and the remedy unless all are folders
/// that can be written to.
void expect_activation_folders(std::span<const DiskPlace> disks);
/// The same unless they take so many bytes evenly.
void expect_room_for_activations(std::span<const DiskPlace> disks,
                                 std::span<const FileSystem> systems, Index bytes);

}  // namespace dos::offload
