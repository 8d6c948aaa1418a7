// SPDX-License-Identifier: Apache-2.0
#include "base/file.hpp"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <fstream>

#include "base/error.hpp"
#include "scratch_directory.hpp"

namespace dos {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Property;
using testing::ThrowsMessage;

TEST(DurableFile, AppearsOnlyWhenCommitted) {
  const test::ScratchDirectory scratch;
  {
    DurableFile file(scratch / "a.txt");
    file.write("half");
  }
  EXPECT_TRUE(std::filesystem::is_empty(scratch.path()));

  DurableFile file(scratch / "a.txt");
  file.write("head body");
  file.write_at(0, std::as_bytes(std::span(std::string_view("HEAD"))));
  EXPECT_FALSE(std::filesystem::exists(scratch / "a.txt"));
  file.commit();
  EXPECT_EQ(read_text(scratch / "a.txt"), "HEAD body");
  EXPECT_FALSE(std::filesystem::exists(scratch / "a.txt.tmp"));
}

TEST(DurableFile, KeepsTheOldFileWhenTheNewOneFails) {
  const test::ScratchDirectory scratch;
  write_durably(scratch / "a.txt", "old");
  {
    DurableFile file(scratch / "a.txt");
    file.write("new");
  }
  EXPECT_EQ(read_text(scratch / "a.txt"), "old");
}

TEST(DurableFile, NamesThePathThatCannotBeCreated) {
  EXPECT_THAT([] { DurableFile("/nonexistent/folder/a.txt"); },
              ThrowsMessage<Error>(HasSubstr("/nonexistent/folder/a.txt.tmp: cannot create")));
}

TEST(DurableFile, LeavesWhatIsNoFileAlone) {
  const test::ScratchDirectory scratch;
  ASSERT_EQ(::mkfifo((scratch / "pipe").c_str(), 0600), 0);
  EXPECT_THAT([&] { write_durably(scratch / "pipe", "text"); },
              ThrowsMessage<Error>(AllOf(HasSubstr("pipe"), HasSubstr("name another"))));
  EXPECT_TRUE(std::filesystem::is_fifo(scratch / "pipe"));
}

TEST(DurableFile, ReportsAFullDevice) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full on this system";
  const test::ScratchDirectory scratch;
  std::filesystem::create_symlink("/dev/full", scratch / "a.txt.tmp");
  EXPECT_THAT([&] { write_durably(scratch / "a.txt", "text"); },
              ThrowsMessage<Error>(HasSubstr("No space left on device")));
  EXPECT_FALSE(std::filesystem::exists(scratch / "a.txt"));
}

TEST(MappedFile, ReadsWhatIsThere) {
  const test::ScratchDirectory scratch;
  write_durably(scratch / "a.txt", "abc");
  const MappedFile file(scratch / "a.txt");
  EXPECT_EQ(file.bytes().size(), 3U);
  EXPECT_EQ(file.bytes()[1], std::byte{'b'});
}

TEST(MappedFile, EmptyFileIsAnEmptySpan) {
  const test::ScratchDirectory scratch;
  std::ofstream(scratch / "empty").flush();
  EXPECT_TRUE(MappedFile(scratch / "empty").bytes().empty());
}

TEST(MappedFile, RefusesMissingFilesAndFolders) {
  const test::ScratchDirectory scratch;
  EXPECT_THAT([&] { MappedFile(scratch / "missing"); },
              ThrowsMessage<Error>(HasSubstr("missing: cannot open: No such file")));
  EXPECT_THAT([&] { MappedFile{scratch.path()}; },
              ThrowsMessage<Error>(HasSubstr("not a regular file")));
}

}  // namespace
}  // namespace dos
