// SPDX-License-Identifier: Apache-2.0
#include "offload/home_plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

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
  return std::ranges::count(plan.on_disks(), subgroup) > 0;
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
                     .rooms = {.host = host_memory}});
}

TEST(HomePlan, LeavesInMemoryWhatFits) {
  const shape::Layout all = layout(40);
  EXPECT_TRUE(plan(all, 2, 40 * kBytes).are_all_in_host_memory());
  EXPECT_FALSE(plan(all, 2, 40 * kBytes - 1).on_disks().empty());
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

TEST(HomePlan, HasDevicesKeepWhatTheyHaveRoomFor) {
  const shape::Layout all = layout(100);
  const auto plan_with = [&](Index host, std::vector<Index> devices, Index disks = 1) {
    return plan_homes({.layout = all,
                       .ownership = {},
                       .states = 2,
                       .workers = 2,
                       .rooms = {.host = host, .devices = std::move(devices), .disks = disks}});
  };
  const HomePlan three = plan_with((6 + 30) * kBytes, {20 * kBytes, 10 * kBytes + 1});
  EXPECT_EQ(three.on_devices().size(), 30U);
  EXPECT_EQ(three.on_disks().size(), 40U);
  EXPECT_THAT(three.memory_of_devices(all, 2), testing::ElementsAre(20 * kBytes, 10 * kBytes));
  // Each third of the order has its part of each home.
  for (const std::vector<Index>& of : {three.on_devices(), three.on_disks()}) {
    const auto early = std::ranges::count_if(of, [](Index i) { return i < 33; });
    EXPECT_NEAR(static_cast<double>(early), static_cast<double>(of.size()) / 3, 1.5);
  }
  const HomePlan no_disk_needed = plan_with((4 + 70) * kBytes, {30 * kBytes});
  EXPECT_TRUE(no_disk_needed.on_disks().empty());
  EXPECT_EQ(no_disk_needed.on_devices().size(), 30U);
  EXPECT_EQ(no_disk_needed.slots, 4) << "for checkpoints";
  const HomePlan few_slots = plan_with((2 + 70) * kBytes, {30 * kBytes});
  EXPECT_TRUE(few_slots.on_disks().empty()) << "fewer slots rather than a disk";
  EXPECT_EQ(few_slots.slots, 2);
  EXPECT_FALSE(plan_with((1 + 70) * kBytes, {30 * kBytes}).on_disks().empty());
  const HomePlan all_there = plan_with(0, {100 * kBytes});
  EXPECT_EQ(all_there.slots, 4);
  // A device without room takes no slots either.
  const HomePlan none = plan_with(0, {kBytes - 1}, /*disks=*/0);
  EXPECT_TRUE(none.are_all_in_host_memory());
  EXPECT_EQ(none.slots, 0);
  const HomePlan no_disk = plan_with(0, {30 * kBytes}, /*disks=*/0);
  EXPECT_TRUE(no_disk.on_disks().empty());
  EXPECT_EQ(no_disk.on_devices().size(), 30U);
  EXPECT_TRUE(plan_with(100 * kBytes, {30 * kBytes}).are_all_in_host_memory());
  EXPECT_EQ(plan_with(0, {1000 * kBytes}).on_devices().size(), 100U);
  EXPECT_EQ(describe_devices(all, no_disk), "2.34 MiB of 30 subgroups");
  EXPECT_EQ(describe_disks(all, no_disk), "");
}

TEST(HomePlan, HasNoMoreSlotsThanDisksKeepAtWork) {
  const shape::Layout all = layout(100);
  const auto slots = [&](Index workers, Index disks) {
    return plan_homes({.layout = all,
                       .ownership = {},
                       .states = 2,
                       .workers = workers,
                       .rooms = {.disks = disks}})
        .slots;
  };
  EXPECT_EQ(slots(2, 1), 6);
  EXPECT_EQ(slots(64, 1), 8);
  EXPECT_EQ(slots(64, 2), 12);
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
  EXPECT_TRUE(plan_homes({.layout = all, .ownership = {}, .states = 0, .workers = 1})
                  .are_all_in_host_memory());
}

TEST(HomePlan, IsSaidInALine) {
  const shape::Layout all = layout(40);
  EXPECT_EQ(describe_disks(all, plan(all, 2, 0)),
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
