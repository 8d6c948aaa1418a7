// SPDX-License-Identifier: Apache-2.0
#include "offload/disk_place.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <sstream>
#include <system_error>
#include <utility>

#include "base/error.hpp"
#include "base/sized_folder.hpp"

namespace dos::offload {
namespace {

DiskPlace parse_disk(const std::string& text, const char* key) {
  SizedFolder parts = parse_sized_folder(text);
  expect(!parts.folder.empty(),
         "{} has a disk without a folder in '{}': write FOLDER or FOLDER:SIZE, with commas between "
         "several",
         key, text);
  expect(!parts.no_size,
         "{}: '{}' is no size, in '{}': write a number and MB, GB, TB, MiB, GiB or TiB, as in "
         "/nvme0/run:400GB",
         key, parts.no_size.value_or(""), text);
  return {.folder = std::move(parts.folder), .bytes = parts.bytes};
}

void expect_folder(const std::filesystem::path& folder, const char* key) {
  std::error_code ignored;
  expect(std::filesystem::is_directory(folder, ignored),
         "{}: '{}' is no folder: make it, or name another", key, folder.string());
  if (::access(folder.c_str(), W_OK | X_OK) == 0) return;
  fail("{}: '{}' cannot be written to: {}; change its permissions, or name another folder", key,
       folder.string(), std::generic_category().message(errno));
}

}  // namespace

std::vector<DiskPlace> parse_disks(const std::string& text, const char* key) {
  std::vector<DiskPlace> disks;
  if (text.empty()) return disks;
  std::istringstream parts(text + ",");
  for (std::string part; std::getline(parts, part, ',');) {
    DiskPlace disk = parse_disk(part, key);
    expect(std::ranges::find(disks, disk.folder, &DiskPlace::folder) == disks.end(),
           "{} names '{}' twice: each disk once", key, disk.folder.string());
    disks.push_back(std::move(disk));
  }
  return disks;
}

void expect_folders(std::span<const DiskPlace> disks, const char* key) {
  for (const DiskPlace& disk : disks) expect_folder(disk.folder, key);
  std::error_code ignored;
  for (std::size_t i = 0; i < disks.size(); ++i)
    for (std::size_t other = 0; other < i; ++other)
      expect(!std::filesystem::equivalent(disks[other].folder, disks[i].folder, ignored),
             "{} names one folder twice, as '{}' and '{}': each disk once", key,
             disks[other].folder.string(), disks[i].folder.string());
}

}  // namespace dos::offload
