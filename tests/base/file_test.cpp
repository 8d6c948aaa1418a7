// SPDX-License-Identifier: Apache-2.0
#include "base/file.hpp"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "file_size_limit.hpp"
#include "scratch_directory.hpp"

namespace dos::file_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Property;
using testing::ThrowsMessage;

std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  return names;
}

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
  EXPECT_EQ(names_in(scratch.path()), std::vector<std::string>{"a.txt"});
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
              ThrowsMessage<Error>(HasSubstr("/nonexistent/folder/a.txt: cannot create")));
}

TEST(DurableFile, LeavesWhatIsNoFileAlone) {
  const test::ScratchDirectory scratch;
  ASSERT_EQ(::mkfifo((scratch / "pipe").c_str(), 0600), 0);
  EXPECT_THAT([&] { write_durably(scratch / "pipe", "text"); },
              ThrowsMessage<Error>(AllOf(HasSubstr("pipe"), HasSubstr("name another"))));
  EXPECT_TRUE(std::filesystem::is_fifo(scratch / "pipe"));
}

TEST(DurableFile, ReportsWhatCannotBeWritten) {
  const test::ScratchDirectory scratch;
  const test::FileSizeLimit limit(2);
  EXPECT_THAT([&] { write_durably(scratch / "a.txt", "text"); },
              ThrowsMessage<Error>(HasSubstr("a.txt: cannot write: File too large")));
  EXPECT_TRUE(std::filesystem::is_empty(scratch.path()));
}

TEST(DurableFile, WritesThroughNoLink) {
  const test::ScratchDirectory scratch;
  write_durably(scratch / "target", "precious");
  for (const char* name : {"a.txt", "a.txt.tmp"})
    std::filesystem::create_symlink("target", scratch / name);
  write_durably(scratch / "a.txt", "text");
  EXPECT_EQ(read_text(scratch / "target"), "precious");
  EXPECT_FALSE(std::filesystem::is_symlink(scratch / "a.txt"));
  EXPECT_EQ(read_text(scratch / "a.txt"), "text");
}

TEST(DurableFile, TwoAtOnceDisturbEachOtherNot) {
  const test::ScratchDirectory scratch;
  DurableFile first(scratch / "a.txt");
  DurableFile second(scratch / "a.txt");
  first.write("first");
  second.write("second");
  second.commit();
  EXPECT_EQ(read_text(scratch / "a.txt"), "second");
  first.commit();
  EXPECT_EQ(read_text(scratch / "a.txt"), "first");
  EXPECT_EQ(names_in(scratch.path()), std::vector<std::string>{"a.txt"});
}

TEST(DurableFile, RemovesWhatAKilledProcessLeft) {
  const test::ScratchDirectory scratch;
  const pid_t child = ::fork();
  if (child == 0) {
    DurableFile file(scratch / "a.txt");
    file.write("half");
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
  ASSERT_EQ(names_in(scratch.path()).size(), 1U);
  // Names that only look like one of a.txt's, and a link.
  const std::vector<std::string> others{"a.txt.0123456789abcdef", "a.txt.0123456789abcdeg.tmp",
                                        "b.txt.0123456789abcdef.tmp"};
  for (const std::string& name : others) std::ofstream(scratch / name).flush();
  std::filesystem::create_symlink("b", scratch / "a.txt.0123456789abcdef.tmp");
  write_durably(scratch / "a.txt", "text");
  EXPECT_THAT(names_in(scratch.path()),
              testing::UnorderedElementsAre("a.txt", "a.txt.0123456789abcdef.tmp", others[0],
                                            others[1], others[2]));
}

TEST(InputFile, ReadsAnyPartAndStopsAtTheEnd) {
  const test::ScratchDirectory scratch;
  write_durably(scratch / "a.txt", "abcdef");
  const InputFile file(scratch / "a.txt");
  EXPECT_EQ(file.size(), 6);
  std::string part(4, '?');
  const auto bytes = std::as_writable_bytes(std::span(part));
  EXPECT_EQ(file.read(1, bytes), 4);
  EXPECT_EQ(part, "bcde");
  EXPECT_EQ(file.read(4, bytes), 2);
  EXPECT_EQ(part, "efde");
  EXPECT_EQ(file.read(6, bytes), 0);
  std::filesystem::resize_file(scratch / "a.txt", 3);
  EXPECT_EQ(file.read(0, bytes), 3);
}

TEST(InputFile, DoesNotWaitForAPipe) {
  const test::ScratchDirectory scratch;
  ASSERT_EQ(::mkfifo((scratch / "pipe").c_str(), 0600), 0);
  EXPECT_THAT([&] { InputFile(scratch / "pipe"); },
              ThrowsMessage<Error>(HasSubstr("pipe: not a regular file")));
  EXPECT_THAT([&] { (void)read_text(scratch / "pipe"); },
              ThrowsMessage<Error>(HasSubstr("pipe: not a regular file")));
}

}  // namespace
}  // namespace dos::file_test
