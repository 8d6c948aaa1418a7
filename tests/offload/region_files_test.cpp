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
  RegionFiles regions(disks_, {3}, kBytes);
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
  kept->file().link(scratch_ / "kept");
  EXPECT_TRUE(std::filesystem::exists(scratch_ / "kept"));
}

TEST_F(RegionFilesTest, ShareOneWhereTheProcessMayNotHaveSoMany) {
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const auto many = static_cast<Index>(limit.rlim_max / 2);
  RegionFiles regions(disks_, {many}, 0);
  EXPECT_FALSE(regions.can_give());
  EXPECT_FALSE(regions.can_name_in(scratch_.path()));
  RegionFiles small(disks_, {2}, kBytes);
  EXPECT_TRUE(std::filesystem::is_empty(scratch_.path()));
  EXPECT_EQ(regions.at({0, 0}).file, regions.at({0, many - 1}).file);
}

TEST_F(RegionFilesTest, HaveNamesOnTheirOwnFileSystemOnly) {
  RegionFiles regions(disks_, {1}, kBytes);
  if (!regions.can_give()) GTEST_SKIP() << "no files without names here";
  std::filesystem::create_directory(scratch_ / "here");
  EXPECT_TRUE(regions.can_name_in(scratch_ / "here"));
  EXPECT_TRUE(std::filesystem::is_empty(scratch_ / "here"));
  EXPECT_FALSE(regions.can_name_in("/proc"));
  EXPECT_FALSE(regions.can_name_in(scratch_ / "nowhere"));
}

TEST_F(RegionFilesTest, AreAsManyAsThereIsRoomFor) {
  EXPECT_EQ(share_regions(disks_, kBytes, 5, 2), std::vector<Index>{7});
  disks_.front().bytes = 6 * kBytes;
  EXPECT_THAT([&] { share_regions(disks_, kBytes, 5, 2); },
              test::fails_with({"sched.disks", "states of 5 subgroups, and 2 on their way",
                                "there is room for 48.0 KiB"}));
  disks_.push_back({.folder = scratch_ / "none"});
  EXPECT_THAT([&] { share_regions(disks_, kBytes, 5, 2); }, test::fails_with({"is no folder"}));
}

TEST_F(RegionFilesTest, AreThoseThatOthersHaveMade) {
  RegionFiles regions(disks_, {2}, kBytes);
  if (!regions.can_give()) GTEST_SKIP() << "no files without names here";
  const auto own = regions.at({0, 1}).file;
  const auto other = std::make_shared<StateFile>(storage::File::create(scratch_ / "other", kBytes),
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
    RegionFiles regions(disks_, {4}, kBytes);
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
