// SPDX-License-Identifier: Apache-2.0
#include "offload/disk_place.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.hpp"
#include "message_of.hpp"
#include "scratch_directory.hpp"

namespace dos::offload::disk_place_test {
namespace {

using testing::HasSubstr;

TEST(DiskPlace, HasAFolderAndASize) {
  const auto disks = parse_disks("/nvme0/run:400GB,/lustre/run,a:1.5TiB,b:2MB");
  ASSERT_EQ(disks.size(), 4U);
  EXPECT_EQ(disks[0].folder, "/nvme0/run");
  EXPECT_EQ(disks[0].bytes, 400'000'000'000);
  EXPECT_EQ(disks[1].folder, "/lustre/run");
  EXPECT_EQ(disks[1].bytes, std::nullopt);
  EXPECT_EQ(disks[2].bytes, (Index{3} << 40) / 2);
  EXPECT_EQ(disks[3].bytes, 2'000'000);
  EXPECT_TRUE(parse_disks("").empty());
}

TEST(DiskPlace, RefusesWhatIsNone) {
  for (const char* text : {":4GB", ",", "a,", "a,,b"})
    EXPECT_THAT(test::message_of<Error>([&] { parse_disks(text); }), HasSubstr("without a folder"))
        << text;
  for (const char* text : {"a:", "a:GB", "a:4", "a:4 GB", "a:-4GB", "a:0GB", "a:nanGB", "a:infTB",
                           "a:1e30TB", "a:4gb", "a:4GBx"})
    EXPECT_THAT(test::message_of<Error>([&] { parse_disks(text); }), HasSubstr("is no size"))
        << text;
  EXPECT_THAT(test::message_of<Error>([] { parse_disks("a:4GB,b,a"); }),
              HasSubstr("names 'a' twice"));
}

// However it is written.
TEST(DiskPlace, IsNoFolderTwice) {
  const test::ScratchDirectory scratch;
  const auto folder = scratch / "disk";
  std::filesystem::create_directory(folder);
  std::filesystem::create_directory(scratch / "other");
  std::filesystem::create_directory_symlink(folder, scratch / "link");
  const auto expect_one = [&](const std::string& name) {
    const auto disks = parse_disks(folder.string() + "," + (scratch / name).string());
    EXPECT_THAT(test::message_of<Error>([&] { expect_folders(disks, "key"); }),
                testing::AllOf(HasSubstr("key names one folder twice, as '"), HasSubstr(name)));
  };
  expect_one("disk/");
  expect_one("./disk");
  expect_one("other/../disk");
  expect_one("link");
  EXPECT_NO_THROW(
      expect_folders(parse_disks(folder.string() + "," + (scratch / "other").string())));
}

// As calibrate has them.
TEST(DiskPlace, MayHaveAColonInItsName) {
  const test::ScratchDirectory scratch;
  const auto folder = scratch / "run:2026";
  std::filesystem::create_directory(folder);
  const auto disks = parse_disks(folder.string() + "," + folder.string() + "x:4GB");
  EXPECT_EQ(disks[0].folder, folder);
  EXPECT_EQ(disks[0].bytes, std::nullopt);
  EXPECT_EQ(disks[1].bytes, 4'000'000'000);
}

}  // namespace
}  // namespace dos::offload::disk_place_test
