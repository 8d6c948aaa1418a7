// SPDX-License-Identifier: Apache-2.0
#include "offload/region_files.hpp"

#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <vector>

#include "fails_with.hpp"
#include "scratch_directory.hpp"

namespace dos::offload::region_files_test {
namespace {

constexpr Index kBytes = 8192;

class RegionFilesTest : public testing::Test {
 protected:
  RegionFilesTest() { disks_.push_back({.folder = scratch_.path()}); }

  test::ScratchDirectory scratch_;
  std::vector<DiskPlace> disks_;
};

TEST_F(RegionFilesTest, HaveOtherFilesOnceTheyAreGivenAway) {
  RegionFiles regions(disks_, {{3}}, {kBytes});
  if (!regions.can_give()) GTEST_SKIP() << "no files without names here";
  const Region first{.disk = 0, .number = 0};
  const Region second{.disk = 0, .number = 1};
  const auto kept = regions.at(first).file;
  EXPECT_NE(regions.at(second).file, kept);
  // As long as nobody asks for it, it is written again.
  regions.clear(first);
  EXPECT_EQ(regions.at(first).file, kept);
  // Twice, as two checkpoints of one step: it is one file.
  EXPECT_EQ(regions.give(first), kept);
  EXPECT_EQ(regions.give(first), kept);
  EXPECT_EQ(regions.at(first).file, kept) << "the states are there";
  regions.clear(first);
  const auto next = regions.at(first).file;
  EXPECT_NE(next, kept);
  EXPECT_EQ(next->file().size(), kBytes);
  regions.clear(first);
  EXPECT_EQ(regions.at(first).file, next);
  EXPECT_TRUE(kept->file().link(scratch_ / "kept"));
  EXPECT_TRUE(std::filesystem::exists(scratch_ / "kept"));
}

TEST_F(RegionFilesTest, ShareOneWhereTheProcessMayNotHaveSoMany) {
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const auto many = static_cast<Index>(limit.rlim_max / 2);
  testing::internal::CaptureStdout();
  RegionFiles regions(disks_, {{many}}, {0});
  EXPECT_THAT(testing::internal::GetCapturedStdout(),
              testing::HasSubstr("checkpoints write all states anew, as the process may have "));
  EXPECT_FALSE(regions.can_give());
  EXPECT_FALSE(regions.can_name_in(scratch_.path()).can);
  RegionFiles small(disks_, {{2}}, {kBytes});
  EXPECT_TRUE(std::filesystem::is_empty(scratch_.path()));
  EXPECT_EQ(regions.at({0, 0}).file, regions.at({0, many - 1}).file);
}

TEST_F(RegionFilesTest, HaveNamesOnTheirOwnFileSystemOnly) {
  RegionFiles regions(disks_, {{1}}, {kBytes});
  if (!regions.can_give()) GTEST_SKIP() << "no files without names here";
  std::filesystem::create_directory(scratch_ / "here");
  EXPECT_TRUE(regions.can_name_in(scratch_ / "here").can);
  EXPECT_EQ(regions.can_name_in(scratch_ / "here").lacking, "");
  EXPECT_TRUE(std::filesystem::is_empty(scratch_ / "here"));
  EXPECT_FALSE(regions.can_name_in("/proc").can);
  EXPECT_FALSE(regions.can_name_in(scratch_ / "nowhere").can);
}

TEST_F(RegionFilesTest, OfSomeDisksHaveNamesWhereOthersHaveNone) {
  if (::access("/dev/shm", W_OK) != 0) GTEST_SKIP() << "no /dev/shm";
  disks_.push_back({.folder = "/dev/shm"});
  RegionFiles regions(disks_, {{1}, {1}}, {kBytes});
  if (!regions.can_give()) GTEST_SKIP() << "no files without names here";
  for (const auto& [folder, other] : {std::pair{scratch_.path(), std::string("/dev/shm")},
                                      {"/dev/shm", scratch_.path().string()}}) {
    const RegionFiles::Naming naming = regions.can_name_in(folder);
    EXPECT_TRUE(naming.can) << folder;
    EXPECT_EQ(naming.lacking, other);
  }
}

/// Of `count` subgroups, and two that are written meanwhile.
shape::StateRegions of_equal(Index count) {
  return shape::regions_for(std::vector<Index>(static_cast<std::size_t>(count), kBytes), 8, 1);
}

TEST_F(RegionFilesTest, AreAsManyAsThereIsRoomFor) {
  EXPECT_EQ(share_regions(disks_, of_equal(5)), RegionCounts{{7}});
  disks_.front().bytes = 6 * kBytes;
  EXPECT_THAT([&] { share_regions(disks_, of_equal(5)); },
              test::fails_with({"sched.disks", "states of 5 subgroups, and those that are written",
                                "need 56.0 KiB", "there is room for 48.0 KiB"}));
  disks_.push_back({.folder = scratch_ / "none"});
  EXPECT_THAT([&] { share_regions(disks_, of_equal(5)); }, test::fails_with({"is no folder"}));
}

// As all ranks of a node have looked before any took some.
TEST_F(RegionFilesTest, HaveTheRoomOfOneRank) {
  disks_.front().free = 6 * kBytes;
  EXPECT_THAT([&] { share_regions(disks_, of_equal(5)); },
              test::fails_with({"need 56.0 KiB", "there is room for 48.0 KiB"}));
  disks_.front().bytes = 7 * kBytes;
  EXPECT_THAT([&] { share_regions(disks_, of_equal(5)); },
              test::fails_with({"56.0 KiB are to be taken", "48.0 KiB are free for each rank"}));
  disks_.front().free = 7 * kBytes;
  EXPECT_EQ(share_regions(disks_, of_equal(5)), RegionCounts{{7}});
}

TEST_F(RegionFilesTest, HaveTheirPartOfADiskInEachSize) {
  const shape::StateRegions regions = shape::regions_for(
      std::vector<Index>{8 * kBytes, 8 * kBytes, 8 * kBytes, 8 * kBytes, kBytes, kBytes}, 8, 1);
  EXPECT_EQ(regions.counts, (std::vector<Index>{6, 4}));
  disks_.front().bytes = 26 * kBytes;
  std::filesystem::create_directory(scratch_ / "two");
  disks_.push_back({.folder = scratch_ / "two", .bytes = 26 * kBytes});
  const RegionCounts counts = share_regions(disks_, regions);
  for (std::size_t size = 0; size < 2; ++size)
    EXPECT_EQ(counts[0][size] + counts[1][size], regions.counts[size]);
  for (const std::vector<Index>& disk : counts) EXPECT_LE(8 * disk[0] + disk[1], 26);
}

// What is free there is taken once.
TEST_F(RegionFilesTest, OfFoldersOnOneDiskShareIt) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can mount";
  const auto disk = scratch_ / "small";
  std::filesystem::create_directory(disk);
  if (::mount("none", disk.c_str(), "tmpfs", 0, "size=128k") != 0) GTEST_SKIP() << "no mount here";
  disks_.clear();
  for (const char* name : {"a", "b"}) {
    std::filesystem::create_directory(disk / name);
    disks_.push_back({.folder = disk / name});
  }
  {
    const shape::StateRegions regions = of_equal(10);
    const RegionCounts counts = share_regions(disks_, regions);
    EXPECT_GE(counts[0][0] + counts[1][0], 12);
    const RegionFiles files(disks_, counts, regions.bytes);
  }
  EXPECT_THAT([&] { share_regions(disks_, of_equal(15)); },
              test::fails_with({"need 136 KiB", "there is room for 128 KiB"}));
  for (DiskPlace& each : disks_) each.bytes = 96 * 1024;
  EXPECT_THAT([&] { share_regions(disks_, of_equal(10)); },
              test::fails_with({"192 KiB are to be taken in '", "a' and '", "b', where 128 KiB"}));
  // Another program, or rank, that has looked at the same time.
  disks_.pop_back();
  disks_.front().bytes = 96 * 1024;
  const shape::StateRegions regions = of_equal(10);
  const RegionCounts counts = share_regions(disks_, regions);
  {
    const RegionFiles first(disks_, counts, regions.bytes);
    EXPECT_THAT([&] { RegionFiles(disks_, counts, regions.bytes); },
                test::fails_with({"sched.disks: 96.0 KiB cannot be taken in",
                                  "where 32.0 KiB were "
                                  "free",
                                  "cannot reserve its space", "name another folder"}));
  }
  EXPECT_EQ(::mount("none", disk.c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr), 0);
  EXPECT_THAT([&] { share_regions(disks_, regions); },
              test::fails_with({"sched.disks: '", "cannot be written to: Read-only file system"}));
  EXPECT_EQ(::umount(disk.c_str()), 0);
}

TEST_F(RegionFilesTest, AreThoseThatOthersHaveMade) {
  RegionFiles regions(disks_, {{2}}, {kBytes});
  if (!regions.can_give()) GTEST_SKIP() << "no files without names here";
  const auto own = regions.at({0, 1}).file;
  const auto other =
      std::make_shared<StateFile>(storage::DirectFile::create(scratch_ / "other", kBytes),
                                  /*is_complete=*/true);
  EXPECT_EQ(regions.disk_of(other->file()), 0);
  regions.put({0, 1}, other);
  EXPECT_EQ(regions.at({0, 1}).file, other);
  EXPECT_EQ(regions.give({0, 1}), other);
  regions.clear({0, 1});
  EXPECT_EQ(regions.at({0, 1}).file, own) << "nobody writes to the other";
}

// Whoever wants one is told; the states stay where they are.
TEST_F(RegionFilesTest, AreNotGivenAwayWithoutRoomForOthers) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can mount";
  const auto disk = scratch_ / "small";
  std::filesystem::create_directory(disk);
  if (::mount("none", disk.c_str(), "tmpfs", 0, "size=40k") != 0) GTEST_SKIP() << "no mount here";
  {
    disks_ = {{.folder = disk}};
    RegionFiles regions(disks_, {{4}}, {kBytes});
    const auto first = regions.give({0, 0});
    EXPECT_THAT(
        [&] {
          static_cast<void>(regions.give({0, 1}));
        },
        test::fails_with({"small", "cannot reserve its space", "No space left"}));
    const auto second = regions.at({0, 1}).file;
    regions.clear({0, 1});
    EXPECT_EQ(regions.at({0, 1}).file, second);
    regions.clear({0, 0});
    EXPECT_NE(regions.at({0, 0}).file, first);
  }
  EXPECT_EQ(::umount(disk.c_str()), 0);
}

}  // namespace
}  // namespace dos::offload::region_files_test
