// SPDX-License-Identifier: Apache-2.0
#include "offload/disk_place.hpp"

#include <algorithm>
#include <sstream>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "base/units.hpp"

namespace dos::offload {
namespace {

DiskPlace parse_disk(const std::string& text, const char* key) {
  const std::size_t colon = text.rfind(':');
  DiskPlace disk{.folder = text.substr(0, colon)};
  expect(!disk.folder.empty(),
         "{} has a disk without a folder in '{}': write FOLDER or FOLDER:SIZE, with commas between "
         "several",
         key, text);
  if (colon == std::string::npos) return disk;
  disk.bytes = parse_bytes(std::string_view(text).substr(colon + 1));
  expect(disk.bytes.has_value(),
         "{}: '{}' is no size, in '{}': write a number and MB, GB, TB, MiB, GiB or TiB, as in "
         "/nvme0/run:400GB",
         key, text.substr(colon + 1), text);
  return disk;
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

void expect_folders(std::span<const DiskPlace> disks) {
  for (const DiskPlace& disk : disks)
    expect(std::filesystem::is_directory(disk.folder),
           "sched.disks: '{}' is no folder: make it, or name another", disk.folder.string());
}

}  // namespace dos::offload
