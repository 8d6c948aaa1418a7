// SPDX-License-Identifier: Apache-2.0
#include "io/discarded_folders.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/mapped_file.hpp"
#include "io/checkpoint_content.hpp"
#include "leases.hpp"
#include "scratch_directory.hpp"

namespace dos::io::discarded_folders_test {
namespace {

namespace fs = std::filesystem;
using test::fill;
using test::names_in;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

// Nobody waits for what is still being removed, not even one that is of the same step.
TEST(DiscardedFolders, LoseTheirNamesAtOnceAndGoLater) {
  const test::ScratchDirectory scratch;
  DiscardedFolders discarded;
  for (const char* text : {"one", "two"}) {
    fill(scratch / "step-00000001", text);
    discarded.take(scratch / "step-00000001");
  }
  EXPECT_THAT(names_in(scratch.path()),
              UnorderedElementsAre("step-00000001.discarded.tmp", "step-00000001.discarded-2.tmp"));
  EXPECT_TRUE(discarded.has("step-00000001.discarded-2.tmp"));
  EXPECT_FALSE(discarded.has("step-00000001"));
  discarded.remove();
  EXPECT_THAT(names_in(scratch.path()), IsEmpty());
  EXPECT_FALSE(discarded.has("step-00000001.discarded-2.tmp"));
}

constexpr const char* kFile = "weights.safetensors";
constexpr Index kBytes = 1000;

/// Folders with a file of kBytes bytes each, that were taken.
class SpareFiles : public testing::Test {
 protected:
  fs::path make(const std::string& name) {
    const fs::path folder = scratch_ / name;
    fs::create_directory(folder);
    write_durably(folder / kFile, std::string(kBytes, 'x'));
    return folder;
  }
  void discard(const std::string& name) { discarded_.take(scratch_ / name); }
  [[nodiscard]] bool reuse(Index bytes = kBytes) {
    return discarded_.reuse(scratch_ / kFile, bytes);
  }
  static ino_t inode_of(const fs::path& file) {
    struct stat info {};
    EXPECT_EQ(::stat(file.c_str(), &info), 0);
    return info.st_ino;
  }
  void SetUp() override {
    if (!test::has_leases(scratch_.path()))
      GTEST_SKIP() << scratch_.path() << ": its file system has no leases";
  }

  test::ScratchDirectory scratch_;
  DiscardedFolders discarded_;
};

TEST_F(SpareFiles, AreTheFilesThatWereThere) {
  const ino_t inode = inode_of(make("step-1") / kFile);
  discard("step-1");
  EXPECT_TRUE(reuse());
  EXPECT_EQ(inode_of(scratch_ / kFile), inode);
  EXPECT_FALSE(reuse()) << "there was one";
}

TEST_F(SpareFiles, HaveTheNameAndTheSize) {
  make("step-1");
  discard("step-1");
  EXPECT_FALSE(discarded_.reuse(scratch_ / "other.safetensors", kBytes));
  EXPECT_TRUE(reuse());
}

// Its room is for the new one.
TEST_F(SpareFiles, OfAnotherSizeGo) {
  make("step-1");
  discard("step-1");
  EXPECT_FALSE(reuse(kBytes + 1));
  EXPECT_THAT(names_in(scratch_.path()), UnorderedElementsAre("step-1.discarded.tmp"));
  EXPECT_THAT(names_in(scratch_ / "step-1.discarded.tmp"), IsEmpty());
}

TEST_F(SpareFiles, AreNobodyElses) {
  const fs::path linked = make("step-1");
  fs::create_hard_link(linked / kFile, scratch_ / "second");
  discard("step-1");
  const fs::path read = make("step-2");
  const InputFile reader(read / kFile);
  discard("step-2");
  const fs::path mapped = make("step-3");
  const MappedFile mapping(mapped / kFile);
  discard("step-3");
  const fs::path link = make("step-4");
  fs::rename(link / kFile, scratch_ / "target");
  fs::create_symlink(scratch_ / "target", link / kFile);
  discard("step-4");
  EXPECT_FALSE(reuse());
  EXPECT_FALSE(fs::exists(scratch_ / kFile));
}

// Whoever opens a file while it is looked at has a signal sent to this process.
TEST_F(SpareFiles, MayBeOpenedMeanwhile) {
  std::atomic<Index> opened = 0;
  std::atomic<bool> is_over = false;
  const fs::path spare = scratch_ / "step-1.discarded.tmp" / kFile;
  std::jthread reader([&] {
    while (!is_over) {
      const int descriptor = ::open(spare.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
      if (descriptor < 0) continue;
      ++opened;
      ::close(descriptor);
    }
  });
  for (int i = 0; i < 300 || opened < 300; ++i) {
    make("step-1");
    discard("step-1");
    static_cast<void>(reuse());
    fs::remove(scratch_ / kFile);
    discarded_.end_of(scratch_.path());
    discarded_.remove();
  }
  is_over = true;
}

TEST_F(SpareFiles, StayAsManyAsAreAskedForTheNewestOfThem) {
  for (const char* name : {"step-1", "step-2", "step-3"}) {
    make(name);
    discard(name);
  }
  discarded_.remove(2);
  EXPECT_THAT(names_in(scratch_.path()),
              UnorderedElementsAre("step-2.discarded.tmp", "step-3.discarded.tmp"));
  EXPECT_TRUE(reuse());
  discarded_.end_of(scratch_.path());
  discarded_.remove(2);
  EXPECT_THAT(names_in(scratch_.path()), UnorderedElementsAre(kFile, "step-3.discarded.tmp"))
      << "what was used is of no use any more";
  discarded_.remove();
  EXPECT_THAT(names_in(scratch_.path()), UnorderedElementsAre(kFile));
}

// Others begin, and end, between the files of a checkpoint.
TEST_F(SpareFiles, OfOneFolderAreForOneUser) {
  const std::string other = "other.safetensors";
  write_durably(make("step-1") / other, std::string(kBytes, 'x'));
  discard("step-1");
  EXPECT_TRUE(reuse());
  fs::create_directory(scratch_ / "step-3.tmp");
  EXPECT_FALSE(discarded_.reuse(scratch_ / "step-3.tmp" / other, kBytes));
  discarded_.end_of(scratch_ / "step-3.tmp");
  discarded_.remove(0);
  EXPECT_TRUE(discarded_.reuse(scratch_ / other, kBytes));
  discarded_.end_of(scratch_.path());
  discarded_.remove(0);
  EXPECT_THAT(names_in(scratch_.path()), UnorderedElementsAre(kFile, other, "step-3.tmp"));
}

TEST(DiscardedFolders, ThatAreNotThereAreAnError) {
  const test::ScratchDirectory scratch;
  DiscardedFolders discarded;
  EXPECT_THROW(discarded.take(scratch / "step-00000001"), Error);
  EXPECT_FALSE(discarded.has("step-00000001.discarded.tmp"));
  discarded.remove();
}

}  // namespace
}  // namespace dos::io::discarded_folders_test
