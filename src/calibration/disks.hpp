// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/types.hpp"
#include "storage/direct_file.hpp"

namespace dos::calibration {

inline constexpr Index kMiB = Index{1} << 20;

/// A disk that is to be measured, as a tier of the machine file.
struct Disk {
  std::string name;              ///< of the tier
  std::filesystem::path folder;  ///< on its file system
  std::optional<Index> size;     ///< bytes that states may take; nothing: what is free
};

/// Of "NAME=FOLDER" or "NAME=FOLDER:SIZE", SIZE as "400GB" or "1.5TiB". Throws Error, with the
/// text, when it is something else.
Disk parse_disk(const std::string& text);

/// Bytes of each of the two files with which a disk is measured. `quick`: to see that it works.
Index test_file_bytes(const Disk& disk, bool quick);

/// What is free of the disk's file system, or Disk::size.
Index capacity_of(const Disk& disk);

/// Throws Error unless the folder is there, can be written to, lies on a disk and not in memory
/// (tmpfs), and has room for Disk::size, and for two files of `bytes` bytes.
void expect_measurable(const Disk& disk, Index bytes);

/// A file of so many bytes in the disk's folder, without a name: however the program ends, nothing
/// of it stays. Throws Error, naming the folder, where transfers cannot go past the page cache.
storage::DirectFile make_test_file(const Disk& disk, Index bytes);

}  // namespace dos::calibration
