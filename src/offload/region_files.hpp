// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "offload/disk_place.hpp"
#include "offload/region_board.hpp"
#include "offload/state_file.hpp"
#include "shape/state_regions.hpp"

namespace dos::offload {

/// What a run says where files cannot be given to checkpoints.
inline constexpr const char* kStatesAnew = "checkpoints write all states anew";

/// How many of the regions each disk has: all that are needed, as far as sizes, and what is free,
/// go; folders on one file system share what is free there. Throws Error naming sched.disks, the
/// folder and the remedy where there is no room for all.
RegionCounts share_regions(std::span<const DiskPlace> disks, const shape::StateRegions& regions);

/// The bytes of regions. Where file systems have files without names (O_TMPFILE), and the process
/// may have so many open, each region is one, and can be given away: whoever has it may name it,
/// and the region gets another once its states are elsewhere. Else a disk has one file for all. All
/// of them go with the process, however that ends, but for what was named.
class RegionFiles {
 public:
  struct Place {
    std::shared_ptr<StateFile> file;
    Index offset = 0;  ///< of the region's first byte
    bool is_given = false;
  };

  /// `capacity`: of regions that have so many bytes, by size. Says why files cannot be given away,
  /// where they cannot. Throws Error naming sched.disks, the folder, the cause and what is free.
  RegionFiles(std::span<const DiskPlace> disks, const RegionCounts& capacity,
              std::vector<Index> bytes);

  /// Whether give() may be called.
  [[nodiscard]] bool can_give() const { return are_single_; }
  /// Whose files can have names in `folder`, as one looks.
  struct Naming {
    bool can = false;       ///< of some disk that has regions
    std::string lacking{};  ///< of which others not, and why; "": of all, or the run has said so
  };
  [[nodiscard]] Naming can_name_in(const std::filesystem::path& folder) const;

  [[nodiscard]] const Place& at(const Region& region) const;
  /// The region's file, which nobody writes to from now on, but for who is given it. Throws Error
  /// when there is no room for the one that takes its place.
  std::shared_ptr<StateFile> give(const Region& region);
  /// Puts a file that nobody writes to into the place of the region's own, which nobody needs.
  void put(const Region& region, std::shared_ptr<StateFile> file);
  /// The disk that a file's device is; nullopt: none.
  [[nodiscard]] std::optional<Index> disk_of(const storage::DirectFile& file) const;
  /// Nobody needs what the region holds.
  void clear(const Region& region);

 private:
  void choose_kind(const RegionCounts& capacity);
  [[nodiscard]] bool has_regions(std::size_t disk) const;
  void create_all(std::size_t disk, const std::vector<Index>& counts);
  [[nodiscard]] std::shared_ptr<StateFile> create(std::size_t disk, std::size_t size) const;
  [[nodiscard]] std::vector<std::shared_ptr<StateFile>>& spare_of(const Region& region);
  Place& place_of(const Region& region);

  std::vector<std::filesystem::path> folders_;  ///< by disk
  std::vector<Index> bytes_;                    ///< of a region, by size
  bool are_single_ = true;                      ///< a region has a file
  template <class T>
  using ByDiskAndSize = std::vector<std::vector<std::vector<T>>>;
  ByDiskAndSize<Place> places_;  ///< by number
  ByDiskAndSize<std::shared_ptr<StateFile>> spare_;
};

}  // namespace dos::offload
