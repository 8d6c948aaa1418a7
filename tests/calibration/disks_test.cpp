// SPDX-License-Identifier: Apache-2.0
#include "calibration/disks.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "scratch_directory.hpp"
#include "storage/blocking.hpp"
#include "storage/pages.hpp"

namespace dos::calibration::disks_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr Index kMiB = Index{1} << 20;

TEST(Disks, AreReadFromTheCommandLine) {
  const Disk plain = parse_disk("nvme=/scratch/me");
  EXPECT_EQ(plain.name, "nvme");
  EXPECT_EQ(plain.folder, "/scratch/me");
  EXPECT_FALSE(plain.size.has_value());
  const Disk sized = parse_disk("fast-1=/scratch/me:1.5TiB");
  EXPECT_EQ(sized.folder, "/scratch/me");
  EXPECT_EQ(sized.size, Index{3} << 39);
  EXPECT_EQ(parse_disk("a=b:400GB").size, 400'000'000'000);
  EXPECT_EQ(parse_disk("a=/x=y:2MB").folder, "/x=y");
}

TEST(Disks, OfAFolderWithAColon) {
  const test::ScratchDirectory scratch;
  const auto folder = scratch.path() / "a:b";
  std::filesystem::create_directory(folder);
  EXPECT_EQ(parse_disk("d=" + folder.string()).folder, folder);
  EXPECT_EQ(parse_disk("d=" + folder.string() + ":3GB").folder, folder);
}

TEST(Disks, ThatCannotBeReadAreNamed) {
  const auto error_of = [](const std::string& text) -> std::string {
    try {
      parse_disk(text);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  for (const char* text : {"", "nvme", "=/x", "nvme="})
    EXPECT_THAT(error_of(text), AllOf(HasSubstr(text), HasSubstr("write NAME=FOLDER"))) << text;
  EXPECT_THAT(error_of("NVMe=/x"), HasSubstr("use lower-case letters"));
  EXPECT_THAT(error_of("cpu=/x"), HasSubstr("a tier cannot be called 'cpu'"));
  for (const char* size : {"", "GB", "12", "-1GB", "0GB", "1e300TB", "nanGB", "4gb", "4GB "})
    EXPECT_THAT(error_of(std::string("d=/nowhere:") + size), HasSubstr("is no size")) << size;
}

TEST(Disks, AreMeasuredWithFilesOfTheirSize) {
  EXPECT_EQ(test_file_bytes({"d", ".", {}}, /*quick=*/false), 256 * kMiB);
  EXPECT_EQ(test_file_bytes({"d", ".", {}}, /*quick=*/true), 8 * kMiB);
  EXPECT_EQ(test_file_bytes({"d", ".", 100 * kMiB + 1}, /*quick=*/false), 50 * kMiB);
  EXPECT_EQ(test_file_bytes({"d", ".", 1}, /*quick=*/false), kMiB);
}

TEST(Disks, ThatCannotBeMeasuredAreRefusedBefore) {
  const test::ScratchDirectory scratch;
  const auto refused = [](const Disk& disk, Index bytes) {
    return [disk, bytes] { expect_measurable(disk, bytes); };
  };
  EXPECT_THAT(refused({"d", scratch.path() / "none", {}}, kMiB),
              testing::ThrowsMessage<Error>(HasSubstr("there is no such folder")));
  if (std::filesystem::exists("/dev/shm")) {
    EXPECT_THAT(refused({"d", "/dev/shm", {}}, kMiB),
                testing::ThrowsMessage<Error>(HasSubstr("is memory")));
  }
  try {
    expect_measurable({"d", scratch.path(), {}}, kMiB);
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();  // temporary files are in memory here
  }
  EXPECT_THAT(refused({"d", scratch.path(), {}}, Index{1} << 60),
              testing::ThrowsMessage<Error>(
                  AllOf(HasSubstr("two files of"), HasSubstr("are free: make room"))));
  EXPECT_THAT(refused({"d", scratch.path(), Index{1} << 60}, kMiB),
              testing::ThrowsMessage<Error>(HasSubstr("give a smaller size")));
}

TEST(Disks, LeaveNothingBehind) {
  const test::ScratchDirectory scratch;
  std::optional<storage::DirectFile> file;
  try {
    file.emplace(make_test_file({"d", scratch.path(), {}}, kMiB));
  } catch (const Error& error) {
    EXPECT_TRUE(std::filesystem::is_empty(scratch.path()));
    GTEST_SKIP() << error.what();
  }
  EXPECT_TRUE(std::filesystem::is_empty(scratch.path())) << "while it is used";
  storage::Engine engine;
  const std::string text(static_cast<std::size_t>(kMiB), 'x');
  storage::write(engine, *file, 0, text);
  storage::Pages pages(kMiB);
  storage::read(engine, *file, 0, pages.bytes());
  EXPECT_TRUE(std::ranges::all_of(pages.bytes(), [](std::byte b) { return b == std::byte{'x'}; }));
}

}  // namespace
}  // namespace dos::calibration::disks_test
