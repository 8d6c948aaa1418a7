// SPDX-License-Identifier: Apache-2.0
#include "offload/disk_place.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <sstream>
#include <string_view>
#include <utility>

#include "base/error.hpp"

namespace dos::offload {
namespace {

struct Unit {
  std::string_view name;
  double bytes;
};
constexpr std::array kUnits{Unit{"MB", 1e6},     Unit{"GB", 1e9},     Unit{"TB", 1e12},
                            Unit{"MiB", 0x1p20}, Unit{"GiB", 0x1p30}, Unit{"TiB", 0x1p40}};

/// Far above what disks hold, and far below what an Index does.
constexpr double kMostBytes = 1e17;

/// nullopt: no size.
std::optional<Index> parse_size(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  const std::string_view rest(end, static_cast<std::size_t>(text.data() + text.size() - end));
  const auto* unit = std::ranges::find(kUnits, rest, &Unit::name);
  if (unit == kUnits.end()) return std::nullopt;
  const double bytes = number * unit->bytes;
  // Not for what is no number, either.
  if (!(bytes >= 1 && bytes <= kMostBytes)) return std::nullopt;
  return static_cast<Index>(bytes);
}

DiskPlace parse_disk(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  DiskPlace disk{.folder = text.substr(0, colon)};
  expect(!disk.folder.empty(),
         "sched.disks has a disk without a folder in '{}': write FOLDER or FOLDER:SIZE, with "
         "commas between several",
         text);
  if (colon == std::string::npos) return disk;
  disk.bytes = parse_size(std::string_view(text).substr(colon + 1));
  expect(disk.bytes.has_value(),
         "sched.disks: '{}' is no size, in '{}': write a number and MB, GB, TB, MiB, GiB or TiB, "
         "as in /nvme0/run:400GB",
         text.substr(colon + 1), text);
  return disk;
}

}  // namespace

std::vector<DiskPlace> parse_disks(const std::string& text) {
  std::vector<DiskPlace> disks;
  if (text.empty()) return disks;
  std::istringstream parts(text + ",");
  for (std::string part; std::getline(parts, part, ',');) {
    DiskPlace disk = parse_disk(part);
    expect(std::ranges::find(disks, disk.folder, &DiskPlace::folder) == disks.end(),
           "sched.disks names '{}' twice: each disk once", disk.folder.string());
    disks.push_back(std::move(disk));
  }
  return disks;
}

}  // namespace dos::offload
