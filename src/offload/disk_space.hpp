// SPDX-License-Identifier: Apache-2.0
#pragma once

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
};

/// Bytes that are free where a folder lies. Throws Error naming `key` where nobody can tell.
Index free_in(const std::filesystem::path& folder, const char* key);
/// The file systems that the disks are on. Throws as above.
std::vector<FileSystem> file_systems_of(std::span<const DiskPlace> disks, const char* key);
/// "'/a' and '/b'".
std::string folders_on(const FileSystem& system, std::span<const DiskPlace> disks);

/// Most bytes that the disks take when they are filled evenly, as far as their sizes allow, as
/// DiskActivations does.
Index even_room(std::span<const DiskPlace> disks, std::span<const FileSystem> systems);

/// Throws Error naming train.activation_disks, the folder and the remedy unless all are folders
/// that can be written to, and take so many bytes evenly.
void expect_room_for_activations(std::span<const DiskPlace> disks, Index bytes);

}  // namespace dos::offload
