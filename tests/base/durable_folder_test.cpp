// SPDX-License-Identifier: Apache-2.0
#include "base/durable_folder.hpp"

#include <gmock/gmock.h>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <vector>

#include "base/file.hpp"
#include "fails_with.hpp"
#include "scratch_directory.hpp"

namespace dos::durable_folder_test {
namespace {

namespace fs = std::filesystem;

/// What fsync() was called for, and how many of its calls come back as interrupted.
std::vector<fs::path> flushed;
int interruptions = 0;

}  // namespace

int answer_of_fsync(int descriptor) {
  if (interruptions > 0) {
    --interruptions;
    return EINTR;
  }
  flushed.push_back(fs::read_symlink(fmt::format("/proc/self/fd/{}", descriptor)));
  return 0;
}

}  // namespace dos::durable_folder_test

/// In the place of the system's.
extern "C" int fsync(int descriptor) {
  errno = dos::durable_folder_test::answer_of_fsync(descriptor);
  return errno == 0 ? static_cast<int>(::syscall(SYS_fsync, descriptor)) : -1;
}

namespace dos::durable_folder_test {
namespace {

TEST(Directories, AreFlushedFromTheFirstThatWasThere) {
  const test::ScratchDirectory scratch;
  const fs::path root = fs::canonical(scratch.path());
  flushed.clear();
  interruptions = 3;
  EXPECT_FALSE(create_directories_durably(root / "a" / "b" / "c/"));
  EXPECT_TRUE(fs::is_directory(root / "a" / "b" / "c"));
  EXPECT_EQ(interruptions, 0);
  EXPECT_THAT(flushed, testing::UnorderedElementsAre(root / "a" / "b", root / "a", root));
  flushed.clear();
  EXPECT_FALSE(create_directories_durably(root / "a" / "b"));
  EXPECT_THAT(flushed, testing::IsEmpty());
  write_durably(root / "file", "x");
  EXPECT_EQ(create_directories_durably(root / "file" / "d"), std::errc::not_a_directory);
}

TEST(Flushes, AreRepeatedAfterSignals) {
  const test::ScratchDirectory scratch;
  interruptions = 2;
  DurableFolder folder(scratch / "out");
  write_durably(folder.path() / "a", "text");
  EXPECT_EQ(interruptions, 0);
  interruptions = 2;
  folder.commit();
  EXPECT_EQ(interruptions, 0);
}

TEST(DurableFolder, AppearsAtOnce) {
  const test::ScratchDirectory scratch;
  DurableFolder folder(scratch / "out/");
  write_durably(folder.path() / "a", "text");
  fs::create_directory(folder.path() / "sub");
  EXPECT_FALSE(fs::exists(scratch / "out"));
  folder.commit();
  EXPECT_EQ(read_text(scratch / "out" / "a"), "text");
  EXPECT_TRUE(fs::is_directory(scratch / "out" / "sub"));
  EXPECT_EQ(std::distance(fs::directory_iterator(scratch.path()), fs::directory_iterator()), 1);
}

TEST(DurableFolder, LeavesNothingWithoutCommit) {
  const test::ScratchDirectory scratch;
  {
    const DurableFolder folder(scratch / "out");
    write_durably(folder.path() / "a", "text");
  }
  EXPECT_TRUE(fs::is_empty(scratch.path()));
}

TEST(DurableFolder, ReplacesNothing) {
  const test::ScratchDirectory scratch;
  fs::create_directory(scratch / "folder");
  fs::create_symlink("nowhere", scratch / "link");
  write_durably(scratch / "file", "x");
  for (const char* name : {"folder", "link", "file"})
    EXPECT_THAT([&] { DurableFolder{scratch / name}; },
                test::fails_with({name, "is there already", "name another"}));
  DurableFolder late(scratch / "late");
  fs::create_directory(scratch / "late");
  EXPECT_THAT([&] { late.commit(); }, test::fails_with({"late: is there already"}));
}

/// A living process has a lock on its temporary; a killed one has not.
TEST(DurableFolder, RemovesWhatKilledProcessesLeft) {
  const test::ScratchDirectory scratch;
  const fs::path dead = scratch / "out.0123456789abcdef.tmp";
  const fs::path living = scratch / "out.fedcba9876543210.tmp";
  const fs::path other = scratch / "out.tmp";
  for (const fs::path& path : {dead, living, other}) {
    fs::create_directory(path);
    write_durably(path / "a", "text");
  }
  const int descriptor = ::open(living.c_str(), O_RDONLY | O_DIRECTORY);
  ASSERT_EQ(::flock(descriptor, LOCK_EX | LOCK_NB), 0);
  DurableFolder(scratch / "out").commit();
  ::close(descriptor);
  EXPECT_FALSE(fs::exists(dead));
  EXPECT_TRUE(fs::exists(living / "a"));
  EXPECT_TRUE(fs::exists(other / "a"));
}

TEST(DurableFolder, SaysWhereItCannotBe) {
  const test::ScratchDirectory scratch;
  EXPECT_THAT([&] { DurableFolder{scratch / "none" / "out"}; },
              test::fails_with({"out: cannot create: No such file"}));
}

}  // namespace
}  // namespace dos::durable_folder_test
