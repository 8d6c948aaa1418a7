// SPDX-License-Identifier: Apache-2.0
// Files without a name, and what gives them one.
#include "storage/direct_file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <string>

#include "base/file.hpp"
#include "fails_with.hpp"
#include "scratch_directory.hpp"
#include "storage/blocking.hpp"

namespace dos::storage::direct_file_test {
namespace {

namespace fs = std::filesystem;

class UnlinkedFile : public testing::Test {
 protected:
  void SetUp() override {
    try {
      static_cast<void>(DirectFile::create_unlinked(scratch_.path(), 0));
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
  }

  static std::string content_of(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  test::ScratchDirectory scratch_;
  Engine engine_;
};

TEST_F(UnlinkedFile, HasANameOnceItIsLinked) {
  const std::string text(8192, 'x');
  {
    const DirectFile file = DirectFile::create_unlinked(scratch_.path(), 12288);
    EXPECT_EQ(file.size(), 12288);
    write(engine_, file, 0, text);
    EXPECT_TRUE(fs::is_empty(scratch_.path()));
    file.truncate(8192);
    EXPECT_TRUE(file.link(scratch_ / "first"));
    EXPECT_TRUE(file.link(scratch_ / "second"));
  }
  EXPECT_EQ(content_of(scratch_ / "first"), text);
  EXPECT_TRUE(fs::equivalent(scratch_ / "first", scratch_ / "second"));
}

TEST_F(UnlinkedFile, GoesWithoutAName) {
  { const DirectFile file = DirectFile::create_unlinked(scratch_.path(), 4096); }
  EXPECT_TRUE(fs::is_empty(scratch_.path()));
}

TEST_F(UnlinkedFile, IsDirectWhereOthersAre) {
  const DirectFile named = DirectFile::create(scratch_ / "named", 4096);
  const DirectFile unlinked = DirectFile::create_unlinked(scratch_.path(), 4096);
  EXPECT_EQ(unlinked.is_direct(), named.is_direct());
  EXPECT_EQ(unlinked.alignment(), named.alignment());
  EXPECT_EQ(unlinked.device(), named.device());
}

TEST_F(UnlinkedFile, TakesNoNameThatIsThereOrElsewhere) {
  const DirectFile file = DirectFile::create_unlinked(scratch_.path(), 4096);
  std::ofstream(scratch_ / "taken") << "mine";
  EXPECT_THAT([&] { static_cast<void>(file.link(scratch_ / "taken")); },
              test::fails_with({"taken", "cannot name"}));
  EXPECT_EQ(content_of(scratch_ / "taken"), "mine");
  EXPECT_THAT([&] { static_cast<void>(file.link(scratch_ / "none/file")); },
              test::fails_with({"none/file"}));
  EXPECT_THAT([&] { static_cast<void>(DirectFile::create_unlinked(scratch_ / "none", 0)); },
              test::fails_with({"none", "cannot open"}));
}

TEST(WrittenFile, WithoutRoomTakesWhatIsReserved) {
  const test::ScratchDirectory scratch;
  constexpr Index kBytes = Index{64} << 20;
  constexpr Index kReserved = Index{1} << 20;
  const DirectFile file = DirectFile::create(scratch / "file", kBytes, DirectFile::Room::kNone);
  EXPECT_EQ(file.size(), kBytes);
  EXPECT_EQ(std::filesystem::file_size(scratch / "file"), kBytes);
  const auto blocks = [&] {
    struct stat info {};
    EXPECT_EQ(::fstat(file.buffered(), &info), 0);
    return Index{info.st_blocks} * 512;
  };
  EXPECT_LT(blocks(), kReserved);
  if (!file.reserve(kBytes / 2, kReserved)) GTEST_SKIP() << "the file system reserves nothing";
  EXPECT_GE(blocks(), kReserved);
  EXPECT_LT(blocks(), 2 * kReserved);
  EXPECT_EQ(std::filesystem::file_size(scratch / "file"), kBytes);
}

TEST(WrittenFile, IsOpenForWritingAlone) {
  const test::ScratchDirectory scratch;
  { const DirectFile file = DirectFile::create(scratch / "file", 8192); }
  const DirectFile file = DirectFile::open_to_write(scratch / "file");
  EXPECT_EQ(::fcntl(file.buffered(), F_GETFL) & O_ACCMODE, O_WRONLY);
  Engine engine;
  write(engine, file, 1, std::string(8190, 'x'));
  std::string written(8192, 'x');
  written.front() = written.back() = '\0';
  EXPECT_EQ(read_text(scratch / "file"), written);
}

}  // namespace
}  // namespace dos::storage::direct_file_test
