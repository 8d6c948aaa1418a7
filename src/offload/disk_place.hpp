// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/types.hpp"

namespace dos::offload {

/// A folder for states or activations, and how much of its disk each rank may take.
struct DiskPlace {
  std::filesystem::path folder;
  std::optional<Index> bytes{};  ///< nullopt: what is needed
  /// What was free on its file system for each rank before any took some; nullopt: who needs to
  /// know looks.
  std::optional<Index> free{};
};

/// "FOLDER:SIZE,FOLDER", as parse_sized_folder(), sizes such as 400GB, 1.5TB or 800GiB. An empty
/// text is no disk. Throws Error, naming the key, for an empty or doubled folder, or a size that is
/// none.
std::vector<DiskPlace> parse_disks(const std::string& text, const char* key = "sched.disks");

/// Throws Error, naming the key and the remedy, unless all are folders that can be written to, and
/// no two of them are one.
void expect_folders(std::span<const DiskPlace> disks, const char* key = "sched.disks");

}  // namespace dos::offload
