// SPDX-License-Identifier: Apache-2.0
#include "offload/region_board.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>

namespace dos::offload::region_board_test {
namespace {

/// So many subgroups in a row are looked at.
constexpr Index kWindow = 32;

/// Moves all states once: as a step does, each to a region of its choice.
class Steps {
 public:
  Steps(RegionBoard& board, Index count)
      : board_(board), regions_(static_cast<std::size_t>(count)) {}

  /// `rates`: bytes a second, by disk.
  void step(const std::vector<double>& rates) { step(rates, rates); }
  void step(const std::vector<double>& reads, const std::vector<double>& writes) {
    for (std::size_t i = 0; i < regions_.size(); ++i) {
      auto& region = regions_[i];
      if (region) move(*region, Direction::kRead, reads);
      const std::optional<Region> next = board_.take(static_cast<Index>(i));
      ASSERT_TRUE(next.has_value());
      move(*next, Direction::kWrite, writes);
      if (region) board_.give_back(*region);
      region = next;
    }
  }
  [[nodiscard]] std::vector<std::optional<Region>> regions() const { return regions_; }

 private:
  void move(const Region& region, Direction direction, const std::vector<double>& rates) {
    board_.begin(region.disk, direction, now_);
    now_ += kBytes / rates[static_cast<std::size_t>(region.disk)];
    board_.end(region.disk, direction, static_cast<Index>(kBytes), now_);
  }

  static constexpr double kBytes = 100e6;
  RegionBoard& board_;
  std::vector<std::optional<Region>> regions_;
  double now_ = 0;
};

TEST(RegionBoard, GivesEachRegionOnce) {
  RegionBoard board({3, 2}, /*turns=*/6);
  std::set<std::pair<Index, Index>> given;
  for (Index turn = 0; turn < 5; ++turn) {
    const auto region = board.take(turn);
    ASSERT_TRUE(region.has_value());
    EXPECT_LT(region->number, region->disk == 0 ? 3 : 2);
    EXPECT_TRUE(given.emplace(region->disk, region->number).second);
  }
  EXPECT_FALSE(board.take(5).has_value());
  board.give_back({.disk = 1, .number = 1});
  const auto again = board.take(0);
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->disk, 1);
  EXPECT_EQ(again->number, 1);
}

TEST(RegionBoard, SharesByRate) {
  RegionBoard board({100, 100, 100}, 60);
  Steps steps(board, 60);
  for (int i = 0; i < 4; ++i) steps.step({3e9, 2e9, 1e9});
  // Less than kHysteresis beside 30, 20, 10.
  EXPECT_NEAR(static_cast<double>(board.used(0)), 30, 3);
  EXPECT_NEAR(static_cast<double>(board.used(1)), 20, 2);
  EXPECT_NEAR(static_cast<double>(board.used(2)), 10, 2);
  EXPECT_NEAR(*board.rate(0), 3e9, 1);
}

/// Reading and writing have rates of their own, which samples of one direction are not mistaken
/// for.
TEST(RegionBoard, SharesByWhatReadingAndWritingTake) {
  RegionBoard board({900, 900, 900}, 500);
  Steps steps(board, 500);
  for (int i = 0; i < 6; ++i) steps.step({1e9, 12e9, 12e9}, {3e9, 5e9, 5e9});
  EXPECT_NEAR(*board.rate(0), 1.5e9, 1);
  EXPECT_NEAR(*board.rate(1), 2 / (1 / 12e9 + 1 / 5e9), 1);
  EXPECT_NEAR(static_cast<double>(board.used(0)), 500 * 1.5 / (1.5 + 2 * 7.06), 2);
}

/// Whatever was before: states of a slow disk in a row would hold all slots.
TEST(RegionBoard, SpreadsADisksShareOverTheOrderOfUpdates) {
  RegionBoard board({400, 400}, 200);
  Steps steps(board, 200);
  for (int i = 0; i < 3; ++i) steps.step({4e9, 0.1e9});
  for (int i = 0; i < 3; ++i) steps.step({4e9, 1e9});
  for (int i = 0; i < 3; ++i) steps.step({0.5e9, 1e9});
  for (int i = 0; i < 5; ++i) steps.step({4e9, 1e9});
  const auto regions = steps.regions();
  for (std::size_t first = 0; first + kWindow <= regions.size(); ++first) {
    const auto slow =
        std::ranges::count_if(regions.begin() + static_cast<std::ptrdiff_t>(first),
                              regions.begin() + static_cast<std::ptrdiff_t>(first) + kWindow,
                              [](const auto& each) { return each->disk == 1; });
    EXPECT_NEAR(static_cast<double>(slow), kWindow / 5.0, 1) << first;
  }
}

TEST(RegionBoard, TakesItsShareFromADiskThatBecomesSlow) {
  RegionBoard board({100, 100}, 60);
  Steps steps(board, 60);
  for (int i = 0; i < 3; ++i) steps.step({2e9, 2e9});
  EXPECT_NEAR(static_cast<double>(board.used(0)), 30, 3);
  for (int i = 0; i < 3; ++i) steps.step({2e9, 0.5e9});
  EXPECT_NEAR(static_cast<double>(board.used(1)), 12, 2);
}

TEST(RegionBoard, GivesADiskThatRecoversItsShareAgain) {
  RegionBoard board({100, 100}, 60);
  Steps steps(board, 60);
  for (int i = 0; i < 3; ++i) steps.step({2e9, 2e9});
  for (int i = 0; i < 30; ++i) steps.step({2e9, 1e5});
  EXPECT_LE(board.used(1), 1) << "a thousandth of the rate";
  for (int i = 0; i < 200; ++i) steps.step({2e9, 2e9});
  EXPECT_NEAR(static_cast<double>(board.used(1)), 30, 3);
}

TEST(RegionBoard, LeavesStatesWhereTheyAreWhileRatesWaver) {
  RegionBoard board({100, 100}, 60);
  Steps steps(board, 60);
  for (int i = 0; i < 4; ++i) steps.step({2e9, 2e9});
  const auto before = steps.regions();
  steps.step({2.05e9, 1.95e9});
  const auto after = steps.regions();
  for (std::size_t i = 0; i < before.size(); ++i) EXPECT_EQ(before[i]->disk, after[i]->disk);
}

TEST(RegionBoard, FillsTheFasterDiskNoFurtherThanItGoes) {
  RegionBoard board({10, 100}, 60);
  Steps steps(board, 60);
  for (int i = 0; i < 4; ++i) steps.step({9e9, 1e9});
  EXPECT_LE(board.used(0), 10);
  EXPECT_EQ(board.used(0) + board.used(1), 60);
  EXPECT_GE(board.used(0), 9);
}

TEST(RegionBoard, GivesRegionsOfTheSizeThatASubgroupHas) {
  RegionBoard board({{1, 2}, {1, 0}}, {1000, 10}, {0, 1, 0, 1, 0});
  const auto first = board.take(0);
  EXPECT_EQ(board.take(0)->size, 0);
  EXPECT_FALSE(board.take(2).has_value()) << "small ones are free";
  EXPECT_EQ(board.take(1)->disk, 0);
  EXPECT_FALSE(board.take_on(1, 3).has_value());
  EXPECT_EQ(board.take_on(0, 3)->size, 1);
  board.give_back(*first);
  EXPECT_EQ(board.take(4)->disk, first->disk);
}

// Disks have the same bytes, whatever the numbers.
TEST(RegionBoard, SharesBytes) {
  RegionBoard board({{9, 90}, {9, 90}}, {90, 10}, {0, 1, 1, 1, 1, 1, 1, 1, 1, 1});
  for (Index turn = 0; turn < 10; ++turn) board.take(turn);
  EXPECT_EQ(board.used(0), 1);
  EXPECT_EQ(board.used(1), 9);
}

// A transfer that is over no longer counts, however late somebody looks.
TEST(RegionBoard, CountsUntilTransfersEnd) {
  RegionBoard board({4}, /*turns=*/1);
  board.begin(0, Direction::kRead, 1);
  board.end(0, Direction::kRead, 1'000'000, 2);
  board.begin(0, Direction::kWrite, 9);
  // Read on another clock, a little before.
  board.end(0, Direction::kWrite, 0, 9 - 1e-6);
  EXPECT_NEAR(*board.rate(0), 1e6, 1e-3);
}

}  // namespace
}  // namespace dos::offload::region_board_test
