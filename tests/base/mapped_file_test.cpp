// SPDX-License-Identifier: Apache-2.0
#include "base/mapped_file.hpp"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <csignal>
#include <fstream>

#include "base/error.hpp"
#include "base/file.hpp"
#include "scratch_directory.hpp"

namespace dos::mapped_file_test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

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

TEST(MappedFile, DoesNotWaitForAPipe) {
  const test::ScratchDirectory scratch;
  ASSERT_EQ(::mkfifo((scratch / "pipe").c_str(), 0600), 0);
  EXPECT_THAT([&] { MappedFile(scratch / "pipe"); },
              ThrowsMessage<Error>(HasSubstr("pipe: not a regular file")));
}

/// The last byte of a file of several pages.
int last_byte(const MappedFile& file) {
  return static_cast<int>(static_cast<const volatile std::byte&>(file.bytes().back()));
}

TEST(MappedFileDeathTest, NamesTheFileThatWasCutShort) {
  const test::ScratchDirectory scratch;
  for (const char* name : {"a", "b", "c"}) write_durably(scratch / name, std::string(50'000, 'x'));
  const MappedFile a(scratch / "a");
  MappedFile moved(scratch / "b");
  const MappedFile b(std::move(moved));
  { const MappedFile c(scratch / "c"); }
  EXPECT_EQ(last_byte(b), 'x');
  std::filesystem::resize_file(scratch / "b", 100);
  const auto read = [&] {
    end_with_words_when_cut("prog");
    return last_byte(a) + last_byte(b);
  };
  EXPECT_EXIT(static_cast<void>(read()), testing::ExitedWithCode(1),
              "^prog: error: " + (scratch / "b").string() + ": was cut short while it is in use");
}

TEST(MappedFileDeathTest, OtherFaultsAreLeftAlone) {
  EXPECT_EXIT(
      {
        end_with_words_when_cut("prog");
        std::raise(SIGBUS);
        std::raise(SIGBUS);
      },
      testing::KilledBySignal(SIGBUS), "");
}

}  // namespace
}  // namespace dos::mapped_file_test
