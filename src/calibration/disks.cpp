// SPDX-License-Identifier: Apache-2.0
#include "calibration/disks.hpp"

#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>

#include "base/error.hpp"
#include "base/temporary.hpp"
#include "base/units.hpp"
#include "perfmodels/machine.hpp"

namespace dos::calibration {
namespace {

constexpr Index kMiB = Index{1} << 20;
/// More than controllers hold, and a second of a slow disk: some hundred passes are read.
constexpr Index kFileBytes = 256 * kMiB;
constexpr Index kQuickBytes = 8 * kMiB;

struct Unit {
  const char* name;
  double bytes;
};
constexpr std::array kUnits{Unit{"MB", 1e6},     Unit{"MiB", 0x1p20}, Unit{"GB", 1e9},
                            Unit{"GiB", 0x1p30}, Unit{"TB", 1e12},    Unit{"TiB", 0x1p40}};

struct FileSystem {
  std::uint32_t magic;
  const char* name;
};
constexpr std::array kMemory{FileSystem{TMPFS_MAGIC, "tmpfs"}, FileSystem{RAMFS_MAGIC, "ramfs"},
                             FileSystem{HUGETLBFS_MAGIC, "hugetlbfs"}};

/// Nothing unless the text is a number with one of the units.
std::optional<Index> bytes_of(const std::string& text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string unit(end, text.data() + text.size());
  const auto* found =
      std::ranges::find_if(kUnits, [&](const Unit& each) { return unit == each.name; });
  if (error != std::errc{} || found == kUnits.end()) return std::nullopt;
  constexpr double kMost = 1e17;  // of a tier in a machine file
  if (!(number > 0) || number * found->bytes > kMost) return std::nullopt;
  return std::llround(number * found->bytes);
}

Index free_bytes(const Disk& disk) {
  std::error_code error;
  const auto space = std::filesystem::space(disk.folder, error);
  expect(!error, "--disk {}={}: cannot read what is free there: {}", disk.name,
         disk.folder.string(), error.message());
  return static_cast<Index>(space.available);
}

void expect_no_memory(const Disk& disk) {
  struct statfs info {};
  if (::statfs(disk.folder.c_str(), &info) != 0) return;
  for (const FileSystem& each : kMemory)
    expect(static_cast<std::uint32_t>(info.f_type) != each.magic,
           "--disk {}={}: lies on {}, which is memory: name a folder on a disk", disk.name,
           disk.folder.string(), each.name);
}

}  // namespace

Disk parse_disk(const std::string& text) {
  const std::size_t equals = text.find('=');
  expect(equals != std::string::npos && equals > 0 && equals + 1 < text.size(),
         "--disk {}: write NAME=FOLDER or NAME=FOLDER:SIZE, as nvme=/scratch/me:400GB", text);
  Disk disk{.name = text.substr(0, equals), .folder = text.substr(equals + 1), .size = {}};
  perfmodels::expect_tier_name("--disk " + text, disk.name);
  const std::string place = disk.folder.string();
  const std::size_t colon = place.rfind(':');
  // A colon may be part of the folder's name.
  if (colon == std::string::npos || std::filesystem::exists(disk.folder)) return disk;
  disk.size = bytes_of(place.substr(colon + 1));
  expect(disk.size.has_value(),
         "--disk {}: '{}' is no size: write a number and MB, MiB, GB, GiB, TB or TiB", text,
         place.substr(colon + 1));
  disk.folder = place.substr(0, colon);
  return disk;
}

Index test_file_bytes(const Disk& disk, bool quick) {
  const Index wanted = quick ? kQuickBytes : kFileBytes;
  if (!disk.size) return wanted;
  return std::clamp(*disk.size / 2 / kMiB * kMiB, kMiB, wanted);
}

Index capacity_of(const Disk& disk) {
  return disk.size ? *disk.size : free_bytes(disk);
}

void expect_measurable(const Disk& disk, Index bytes) {
  expect(std::filesystem::is_directory(disk.folder),
         "--disk {}={}: there is no such folder: make it", disk.name, disk.folder.string());
  expect_no_memory(disk);
  expect(::access(disk.folder.c_str(), W_OK | X_OK) == 0,
         "--disk {}={}: cannot be written to: change its permissions, or name another folder",
         disk.name, disk.folder.string());
  const Index free = free_bytes(disk);
  expect(free >= 2 * bytes,
         "--disk {}={}: two files of {} are measured with, {} are free: make room, or name another "
         "folder",
         disk.name, disk.folder.string(), format_bytes(bytes), format_bytes(free));
  expect(!disk.size || *disk.size <= free,
         "--disk {}={}: {} are to be for states, {} are free: give a smaller size", disk.name,
         disk.folder.string(), format_bytes(disk.size.value_or(0)), format_bytes(free));
}

storage::File make_test_file(const Disk& disk, Index bytes) {
  const std::filesystem::path target = disk.folder / "dos-calibrate";
  remove_leftovers(target);
  const std::filesystem::path path = random_name_beside(target);
  try {
    storage::File file = storage::File::create(path, bytes);
    std::filesystem::remove(path);
    expect(file.is_direct(),
           "--disk {}={}: its file system has no transfers past the page cache (O_DIRECT), so that "
           "memory would be measured: name another folder",
           disk.name, disk.folder.string());
    return file;
  } catch (const Error&) {
    std::error_code ignored;
    std::filesystem::remove(path, ignored);
    throw;
  }
}

}  // namespace dos::calibration
