// SPDX-License-Identifier: Apache-2.0
#include "offload/disk_space.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <vector>

#include "base/random.hpp"
#include "fails_with.hpp"
#include "scratch_directory.hpp"

namespace dos::offload::disk_space_test {
namespace {

TEST(DiskSpace, IsThatOfAFileSystemOnce) {
  const test::ScratchDirectory scratch;
  std::filesystem::create_directory(scratch / "a");
  std::filesystem::create_directory(scratch / "b");
  const std::vector<DiskPlace> disks{{.folder = scratch / "a"}, {.folder = scratch / "b"}};
  const std::vector<FileSystem> systems = file_systems_of(disks, "key");
  ASSERT_EQ(systems.size(), 1U);
  EXPECT_EQ(systems[0].disks, (std::vector<std::size_t>{0, 1}));
  EXPECT_GT(systems[0].free, 0);
  EXPECT_EQ(folders_on(systems[0], disks),
            "'" + (scratch / "a").string() + "' and '" + (scratch / "b").string() + "'");
  EXPECT_THAT([&] { file_systems_of(std::vector<DiskPlace>{{.folder = scratch / "c"}}, "key"); },
              test::fails_with({"key: ", "c'", "No such file", "name another"}));
}

TEST(DiskSpace, OfStatesIsThatOfTheirFileSystem) {
  const test::ScratchDirectory scratch;
  std::vector<DiskPlace> disks{{.folder = scratch.path()}};
  const DiskRoom room = rooms_for_states(disks).front();
  EXPECT_GT(room.free, 0);
  EXPECT_EQ(room.device, file_systems_of(disks, "key").front().device);
  disks.front().free = 7;
  EXPECT_EQ(file_systems_of(disks, "key").front().free, 7) << "what somebody has found";
  disks.front().folder = scratch / "none";
  EXPECT_THAT([&] { rooms_for_states(disks); },
              test::fails_with({"sched.disks", "none' is no folder", "make it"}));
}

// As share_regions() lets them: all on one disk, and on each of several what may be moved there.
TEST(DiskSpace, LeavesActivationsWhatStatesDoNotTake) {
  const test::ScratchDirectory scratch;
  for (const char* name : {"a", "b"}) std::filesystem::create_directory(scratch / name);
  const std::vector<DiskPlace> here{{.folder = scratch.path(), .bytes = {}, .free = 1000}};
  const auto left = [&](const std::vector<std::optional<Index>>& sizes, Index states, Index ranks) {
    std::vector<DiskPlace> of_states;
    for (std::size_t i = 0; i < sizes.size(); ++i)
      of_states.push_back({.folder = scratch / (i == 0 ? "a" : "b"), .bytes = sizes[i]});
    return left_for_activations(here, of_states, states, ranks).front().free;
  };
  EXPECT_EQ(left({{}}, 300, 1), 700);
  EXPECT_EQ(left({{}}, 300, 2), 200);
  EXPECT_EQ(left({{}}, 1500, 1), 0);
  EXPECT_EQ(left({200, {}}, 300, 1), 700) << "one file system, which they share";
  EXPECT_EQ(left({100, 50}, 300, 1), 850) << "sizes";
  EXPECT_EQ(left({{}, {}}, 0, 1), 1000);
}

Index room_of(const std::vector<std::optional<Index>>& sizes,
              const std::vector<FileSystem>& systems) {
  std::vector<DiskPlace> disks;
  for (const std::optional<Index>& size : sizes) disks.push_back({.folder = "/d", .bytes = size});
  return even_room(disks, systems);
}

TEST(EvenRoom, EndsWhereTheFirstDiskIsFull) {
  EXPECT_EQ(room_of({{}}, {{{0}, 100}}), 100);
  EXPECT_EQ(room_of({{}, {}}, {{{0, 1}, 101}}), 100) << "one file system";
  EXPECT_EQ(room_of({{}, {}}, {{{0}, 100}, {{1}, 30}}), 60);
  EXPECT_EQ(room_of({{}, 10}, {{{0}, 100}, {{1}, 30}}), 110) << "a disk that has its size";
  EXPECT_EQ(room_of({{}, 10, {}}, {{{0, 1}, 50}, {{2}, 100}}), 90);
  EXPECT_EQ(room_of({40, 10}, {{{0, 1}, 1000}}), 50) << "sizes alone";
  EXPECT_EQ(room_of({{}, {}}, {{{0}, 100}, {{1}, 0}}), 0);
}

/// Against disks that are filled a byte at a time, the one with least that its size allows next.
TEST(EvenRoom, IsWhatDisksTakeOneByOne) {
  const Philox random(7);
  std::uint64_t drawn = 0;
  const auto draw = [&](Index most) {
    return static_cast<Index>(random.uniform(drawn++) * static_cast<double>(most));
  };
  for (int round = 0; round < 300; ++round) {
    const auto count = static_cast<std::size_t>(1 + draw(4));
    std::vector<FileSystem> systems(static_cast<std::size_t>(1 + draw(2)));
    std::vector<std::optional<Index>> sizes(count);
    for (FileSystem& system : systems) system.free = draw(60);
    for (std::size_t i = 0; i < count; ++i) {
      if (draw(2) == 0) sizes[i] = draw(40);
      systems[static_cast<std::size_t>(draw(std::ssize(systems)))].disks.push_back(i);
    }
    std::erase_if(systems, [](const FileSystem& system) { return system.disks.empty(); });
    // What all disks of the level have at once, as a step's slots are of one size.
    std::vector<Index> has(count);
    Index expected = 0;
    for (Index level = 1; level <= 60; ++level) {
      for (std::size_t i = 0; i < count; ++i) has[i] = std::min(level, sizes[i].value_or(level));
      const bool fits = std::ranges::all_of(systems, [&](const FileSystem& system) {
        Index sum = 0;
        for (const std::size_t i : system.disks) sum += has[i];
        return sum <= system.free;
      });
      if (!fits) break;
      expected = 0;
      for (const Index each : has) expected += each;
    }
    EXPECT_EQ(room_of(sizes, systems), expected) << round;
  }
}

}  // namespace
}  // namespace dos::offload::disk_space_test
