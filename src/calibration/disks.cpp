// SPDX-License-Identifier: Apache-2.0
#include "calibration/disks.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "base/sized_folder.hpp"
#include "base/units.hpp"
#include "perfmodels/machine.hpp"

namespace dos::calibration {
namespace {

/// More than controllers hold, and a second of a slow disk: some hundred passes are read.
constexpr Index kFileBytes = 256 * kMiB;
constexpr Index kQuickBytes = 8 * kMiB;

Index free_bytes(const Disk& disk) {
  std::error_code error;
  const auto space = std::filesystem::space(disk.folder, error);
  expect(!error, "--disk {}={}: cannot read what is free there: {}", disk.name,
         disk.folder.string(), error.message());
  return static_cast<Index>(space.available);
}

void expect_no_memory(const Disk& disk) {
  const char* memory = storage::memory_file_system(disk.folder);
  expect(memory == nullptr, "--disk {}={}: lies on {}, which is memory: name a folder on a disk",
         disk.name, disk.folder.string(), memory == nullptr ? "" : memory);
}

}  // namespace

Disk parse_disk(const std::string& text) {
  const std::size_t equals = text.find('=');
  expect(equals != std::string::npos && equals > 0 && equals + 1 < text.size(),
         "--disk {}: write NAME=FOLDER or NAME=FOLDER:SIZE, as nvme=/scratch/me:400GB", text);
  SizedFolder place = parse_sized_folder(text.substr(equals + 1));
  const std::string name = text.substr(0, equals);
  perfmodels::expect_tier_name("--disk " + text, name);
  expect(!place.no_size,
         "--disk {}: '{}' is no size: write a number and MB, MiB, GB, GiB, TB or TiB", text,
         place.no_size.value_or(""));
  return {.name = name, .folder = std::move(place.folder), .size = place.bytes};
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

storage::DirectFile make_test_file(const Disk& disk, Index bytes) {
  storage::DirectFile file =
      storage::DirectFile::create_nameless(disk.folder / "dos-calibrate", bytes);
  expect(file.is_direct(),
         "--disk {}={}: its file system has no transfers past the page cache (O_DIRECT), so that "
         "memory would be measured: name another folder",
         disk.name, disk.folder.string());
  return file;
}

}  // namespace dos::calibration
