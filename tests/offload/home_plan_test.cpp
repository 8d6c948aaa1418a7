// SPDX-License-Identifier: Apache-2.0
#include "offload/home_plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.hpp"
#include "message_of.hpp"

namespace dos::offload::home_plan_test {
namespace {

using testing::HasSubstr;

constexpr Index kParams = 10'240;          // ten pages
constexpr Index kBytes = 2 * 4 * kParams;  // of two states

shape::Layout layout(Index subgroups) {
  shape::Layout made;
  for (Index i = 0; i < subgroups; ++i)
    made.subgroups.push_back({.name = fmt::format("s{}", i), .count = kParams, .depth = i});
  return made;
}

bool is_on_disk(const HomePlan& plan, Index subgroup) {
  return std::ranges::find(plan.subgroups, subgroup) != plan.subgroups.end();
}

Index bytes_at_home(const shape::Layout& layout, const HomePlan& plan) {
  Index bytes = 0;
  for (Index i = 0; i < std::ssize(layout.subgroups); ++i)
    if (!is_on_disk(plan, i)) bytes += kBytes;
  return bytes;
}

HomePlan plan(const shape::Layout& layout, Index workers, Index host_memory) {
  return plan_homes({.layout = layout,
                     .ownership = {},
                     .states = 2,
                     .workers = workers,
                     .host_memory = host_memory});
}

TEST(HomePlan, LeavesInMemoryWhatFits) {
  const shape::Layout all = layout(40);
  EXPECT_FALSE(plan(all, 2, 40 * kBytes).has_disks());
  EXPECT_TRUE(plan(all, 2, 40 * kBytes - 1).has_disks());
}

TEST(HomePlan, PutsAllOnDisksWithoutMemoryOfItsOwn) {
  const shape::Layout all = layout(40);
  const HomePlan homes = plan(all, 2, 0);
  EXPECT_EQ(bytes_at_home(all, homes), 0);
  EXPECT_EQ(homes.slots, 6);
  EXPECT_EQ(homes.slot_bytes, kBytes);
}

TEST(HomePlan, KeepsWithinTheMemoryAndUsesIt) {
  for (const Index workers : {1, 2, 16, 64})
    for (Index room = 2; room < 100; ++room) {
      const shape::Layout all = layout(100);
      const HomePlan homes = plan(all, workers, room * kBytes);
      const Index used = bytes_at_home(all, homes) + homes.memory();
      EXPECT_LE(used, room * kBytes) << workers << " " << room;
      EXPECT_GE(used, (room - 1) * kBytes) << workers << " " << room;
      EXPECT_GE(homes.slots, 2);
      EXPECT_LE(homes.slots, workers + 4);
    }
}

TEST(HomePlan, SpreadsWhatStaysEvenly) {
  const shape::Layout all = layout(100);
  const HomePlan homes = plan(all, 2, (6 + 50) * kBytes);
  for (Index i = 0; i + 2 <= 100; i += 2)
    EXPECT_NE(is_on_disk(homes, i), is_on_disk(homes, i + 1)) << i;
}

TEST(HomePlan, HasNothingOfOthersAndOfWhatIsFrozen) {
  shape::Layout all = layout(10);
  all.subgroups[3].trained = false;
  tensor::Ownership ownership{.zero = 1, .owned = std::vector<bool>(10, true)};
  ownership.owned[5] = false;
  const HomePlan homes =
      plan_homes({.layout = all, .ownership = ownership, .states = 2, .workers = 1});
  for (Index i = 0; i < 10; ++i) EXPECT_EQ(is_on_disk(homes, i), i != 3 && i != 5) << i;
}

TEST(HomePlan, NeedsNothingForARuleWithoutStates) {
  const shape::Layout all = layout(10);
  EXPECT_FALSE(plan_homes({.layout = all, .ownership = {}, .states = 0, .workers = 1}).has_disks());
}

TEST(HomePlan, IsSaidInALine) {
  const shape::Layout all = layout(40);
  EXPECT_EQ(describe(all, plan(all, 2, 0)),
            "3.12 MiB of 40 subgroups, through 6 slots of 80.0 KiB");
}

TEST(HomePlan, SaysHowLittleMemoryIsTooLittle) {
  const shape::Layout all = layout(40);
  const std::string message = test::message_of<Error>([&] { plan(all, 2, 2 * kBytes - 1); });
  EXPECT_THAT(message, HasSubstr("sched.host_memory"));
  EXPECT_THAT(message, HasSubstr("raise it to"));
}

}  // namespace
}  // namespace dos::offload::home_plan_test
