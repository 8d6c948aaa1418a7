// SPDX-License-Identifier: Apache-2.0
#include "offload/region_board.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>

namespace dos::offload::region_board_test {
namespace {

/// Moves all states once: as a step does, each to a region of its choice.
class Steps {
 public:
  Steps(RegionBoard& board, Index count)
      : board_(board), regions_(static_cast<std::size_t>(count)) {}

  /// `rates`: bytes a second, by disk.
  void step(const std::vector<double>& rates) {
    for (auto& region : regions_) {
      const std::optional<Region> next = board_.take(region);
      ASSERT_TRUE(next.has_value());
      const double seconds = kBytes / rates[static_cast<std::size_t>(next->disk)];
      board_.begin(next->disk, now_);
      now_ += seconds;
      board_.end(next->disk, static_cast<Index>(kBytes), now_);
      if (region) board_.give_back(*region);
      region = next;
    }
  }
  [[nodiscard]] std::vector<std::optional<Region>> regions() const { return regions_; }

 private:
  static constexpr double kBytes = 100e6;
  RegionBoard& board_;
  std::vector<std::optional<Region>> regions_;
  double now_ = 0;
};

TEST(RegionBoard, GivesEachRegionOnce) {
  RegionBoard board({3, 2});
  std::set<std::pair<Index, Index>> given;
  for (int i = 0; i < 5; ++i) {
    const auto region = board.take(std::nullopt);
    ASSERT_TRUE(region.has_value());
    EXPECT_LT(region->number, region->disk == 0 ? 3 : 2);
    EXPECT_TRUE(given.emplace(region->disk, region->number).second);
  }
  EXPECT_EQ(board.take(std::nullopt), std::nullopt);
  board.give_back({.disk = 1, .number = 1});
  const auto again = board.take(Region{.disk = 0, .number = 0});
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->disk, 1);
  EXPECT_EQ(again->number, 1);
}

TEST(RegionBoard, SharesByRate) {
  RegionBoard board({100, 100, 100});
  Steps steps(board, 60);
  for (int i = 0; i < 4; ++i) steps.step({3e9, 2e9, 1e9});
  // Less than kHysteresis beside 30, 20, 10.
  EXPECT_NEAR(static_cast<double>(board.used(0)), 30, 3);
  EXPECT_NEAR(static_cast<double>(board.used(1)), 20, 2);
  EXPECT_NEAR(static_cast<double>(board.used(2)), 10, 2);
  EXPECT_NEAR(*board.rate(0), 3e9, 1);
}

TEST(RegionBoard, TakesItsShareFromADiskThatBecomesSlow) {
  RegionBoard board({100, 100});
  Steps steps(board, 60);
  for (int i = 0; i < 3; ++i) steps.step({2e9, 2e9});
  EXPECT_NEAR(static_cast<double>(board.used(0)), 30, 3);
  for (int i = 0; i < 3; ++i) steps.step({2e9, 0.5e9});
  EXPECT_NEAR(static_cast<double>(board.used(1)), 12, 2);
}

TEST(RegionBoard, GivesADiskThatRecoversItsShareAgain) {
  RegionBoard board({100, 100});
  Steps steps(board, 60);
  for (int i = 0; i < 3; ++i) steps.step({2e9, 2e9});
  for (int i = 0; i < 30; ++i) steps.step({2e9, 1e5});
  EXPECT_LE(board.used(1), 1) << "a thousandth of the rate";
  for (int i = 0; i < 200; ++i) steps.step({2e9, 2e9});
  EXPECT_NEAR(static_cast<double>(board.used(1)), 30, 3);
}

TEST(RegionBoard, LeavesStatesWhereTheyAreWhileRatesWaver) {
  RegionBoard board({100, 100});
  Steps steps(board, 60);
  for (int i = 0; i < 4; ++i) steps.step({2e9, 2e9});
  const auto before = steps.regions();
  steps.step({2.05e9, 1.95e9});
  const auto after = steps.regions();
  for (std::size_t i = 0; i < before.size(); ++i) EXPECT_EQ(before[i]->disk, after[i]->disk);
}

TEST(RegionBoard, FillsTheFasterDiskNoFurtherThanItGoes) {
  RegionBoard board({10, 100});
  Steps steps(board, 60);
  for (int i = 0; i < 4; ++i) steps.step({9e9, 1e9});
  EXPECT_LE(board.used(0), 10);
  EXPECT_EQ(board.used(0) + board.used(1), 60);
  EXPECT_GE(board.used(0), 9);
}

}  // namespace
}  // namespace dos::offload::region_board_test
