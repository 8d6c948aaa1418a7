// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/types.hpp"

namespace dos::offload {

/// A place for the states of one subgroup on a disk.
struct Region {
  Index disk = 0;
  Index number = 0;  ///< among those of its size on the disk
  Index size = 0;    ///< which of the sizes
};

/// Regions, by disk and size.
using RegionCounts = std::vector<std::vector<Index>>;

enum class Direction : std::uint8_t { kRead, kWrite };

/// Which regions are in use, and which disk takes the next states: disks share the states in
/// proportion to the rates that they show, whatever else uses them, and evenly over the order of
/// updates. Many of a slow disk in a row would hold all slots while other disks have nothing to do.
/// Times in seconds, of any clock.
class RegionBoard {
 public:
  /// `bytes`: of a region, by size. `sizes`: that subgroups have, in the order of updates.
  RegionBoard(const RegionCounts& capacity, std::vector<Index> bytes, std::vector<Index> sizes);
  /// Of one size. `capacity`: by disk. `turns`: subgroups.
  RegionBoard(const std::vector<Index>& capacity, Index turns);

  /// A free region for new states of the subgroup of this turn, on the disk that is to have them,
  /// or on another one if that has none. nullopt: all of its size are in use.
  std::optional<Region> take(Index turn);
  /// The same on this disk; nullopt: none is free.
  std::optional<Region> take_on(Index disk, Index turn);
  void give_back(const Region& region);

  /// A transfer of a disk begins, or has moved its bytes. Times do not fall, but for what two
  /// threads' clocks differ by.
  void begin(Index disk, Direction direction, double now);
  void end(Index disk, Direction direction, Index bytes, double now);

  [[nodiscard]] Index used(Index disk) const { return disk_at(disk).used; }
  /// Bytes a second at which it reads and writes as much of both, while at least one transfer is
  /// under way; of one direction as long as the other one is not known. nullopt: neither is.
  [[nodiscard]] std::optional<double> rate(Index disk) const;

 private:
  /// A rate that differs by no more than so much from the one that the shares are made for leaves
  /// them as they are.
  static constexpr double kHysteresis = 1.1;
  /// A disk that has lost all states cannot show that it is fast again: the rate that it is thought
  /// to have grows by this part while all states are written once.
  static constexpr double kForgiveness = 0.125;
  /// What a byte takes is measured over so long a time, and counts half beside what was before.
  static constexpr double kSampleSeconds = 0.2;

  /// What a byte takes in one direction. Time in which both transfer is dealt to them by the number
  /// of transfers under way.
  struct Cost {
    std::optional<double> seconds_a_byte{};
    // Of the sample that is taken:
    Index under_way = 0;
    double busy = 0;
    Index bytes = 0;
  };
  struct Disk {
    std::vector<Index> capacity{};           ///< by size
    std::vector<std::vector<Index>> free{};  ///< by size; the next one at the end
    Index used = 0;
    Index used_bytes = 0;
    std::array<Cost, 2> costs{};  ///< by direction
    double since = 0;             ///< busy times are counted until then
    double shared_rate = 1;       ///< that the shares are made for
  };
  [[nodiscard]] const Disk& disk_at(Index disk) const {
    return disks_[static_cast<std::size_t>(disk)];
  }
  static Cost& cost_of(Disk& disk, Direction direction) {
    return disk.costs[static_cast<std::size_t>(direction)];
  }
  static void count_until(Disk& disk, double now);
  /// Raises the rates of disks without states a little.
  void forgive();
  /// Makes the shares anew if a rate has changed enough.
  void follow_rates();
  void share();
  /// Of those that `has_room` holds for, the disk that `more` bytes in addition to these burden
  /// least; -1: none.
  template <class HasRoom>
  [[nodiscard]] Index least_burdened(const std::vector<Index>& bytes, Index more,
                                     HasRoom has_room) const;
  [[nodiscard]] std::size_t size_of(Index turn) const {
    return static_cast<std::size_t>(sizes_[static_cast<std::size_t>(turn)]);
  }
  /// Taken for disks that have not shown theirs: the mean of the others'.
  [[nodiscard]] double mean_rate() const;

  std::vector<Index> bytes_;  ///< of a region, by size
  std::vector<Index> sizes_;  ///< by turn
  std::vector<Disk> disks_;
  std::vector<Index> share_;  ///< the disk that is to have the states, by turn; -1: any
};

}  // namespace dos::offload
