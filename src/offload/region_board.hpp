// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "base/types.hpp"

namespace dos::offload {

/// A place for the states of one subgroup on a disk; all have the same size.
struct Region {
  Index disk = 0;
  Index number = 0;  ///< from the beginning of the disk's file on
};

/// Which regions are in use, and which disk takes the next states: disks get states in proportion
/// to the rates that they show, whatever else uses them. Times in seconds, of any clock.
class RegionBoard {
 public:
  /// `capacity`: regions, by disk.
  explicit RegionBoard(const std::vector<Index>& capacity);

  /// A free region on the disk that should have more, or on the one where the states are now as
  /// long as none is better by kHysteresis. `current`: of the old states, which the new ones
  /// replace. nullopt: all are in use.
  std::optional<Region> take(const std::optional<Region>& current);
  /// A free region on this disk; nullopt: none is.
  std::optional<Region> take_on(Index disk);
  void give_back(const Region& region);

  /// A transfer of a disk begins, or has moved its bytes.
  void begin(Index disk, double now);
  void end(Index disk, Index bytes, double now);

  [[nodiscard]] Index used(Index disk) const { return disk_at(disk).used; }
  /// Bytes a second while at least one transfer is under way, reads and writes together; nullopt:
  /// not known yet.
  [[nodiscard]] std::optional<double> rate(Index disk) const { return disk_at(disk).rate; }

 private:
  /// A disk that is no more than so much better leaves states where they are.
  static constexpr double kHysteresis = 1.1;
  /// A disk that has lost all states cannot show that it is fast again: the rate that it is thought
  /// to have grows by this part while all states are written once.
  static constexpr double kForgiveness = 0.125;
  /// A rate is taken over so long a time of transfers, and counts half beside those before.
  static constexpr double kSampleSeconds = 0.2;

  struct Disk {
    std::vector<Index> free;  ///< the next one at the end
    Index used = 0;
    std::optional<double> rate{};
    // Of the sample that is taken:
    Index under_way = 0;
    double since = 0;  ///< of those under way now
    double busy = 0;   ///< seconds before that
    Index bytes = 0;
  };
  [[nodiscard]] const Disk& disk_at(Index disk) const {
    return disks_[static_cast<std::size_t>(disk)];
  }
  /// How long the disk would need for what it has and one region more, relative to others.
  [[nodiscard]] double load_with_one_more(std::size_t disk, const std::optional<Region>& current,
                                          double unknown_rate) const;
  /// Raises the rates of disks without states a little.
  void forgive();
  /// Taken for disks that have not shown theirs: the mean of the others'.
  [[nodiscard]] double mean_rate() const;

  std::vector<Disk> disks_;
};

}  // namespace dos::offload
