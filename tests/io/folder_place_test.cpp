// SPDX-License-Identifier: Apache-2.0
#include "io/folder_place.hpp"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "base/error.hpp"
#include "io/checkpoint_content.hpp"
#include "scratch_directory.hpp"

namespace dos::io::folder_place_test {
namespace {

namespace fs = std::filesystem;
using test::save;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// A folder on another disk than another one; "" where there is none.
fs::path make_elsewhere(const fs::path& here) {
  struct stat one {};
  struct stat other {};
  std::string path = "/dev/shm/dosXXXXXX";
  if (::mkdtemp(path.data()) == nullptr) return "";
  if (::stat(here.c_str(), &one) == 0 && ::stat(path.c_str(), &other) == 0 &&
      one.st_dev != other.st_dev)
    return path;
  fs::remove(path);
  return "";
}

/// A run's folder whose place the store knows.
class PlacedStore : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directory(out_);
    store_.stay();
  }

  test::ScratchDirectory scratch_;
  fs::path out_ = scratch_ / "run";
  CheckpointStore store_{out_};
};

TEST_F(PlacedStore, MakesNoFolderThatIsGone) {
  save(store_, 1, "one");
  fs::rename(out_, scratch_ / "moved");
  EXPECT_THAT([&] { save(store_, 2, "two"); },
              ThrowsMessage<Error>(HasSubstr(out_.string() + ": is there no more (")));
  EXPECT_FALSE(fs::exists(out_));
  fs::rename(scratch_ / "moved", out_);
  save(store_, 3, "three");
  EXPECT_THAT(store_.steps(), ElementsAre(3));
}

TEST_F(PlacedStore, MakesOnlyTheFolderOfCheckpoints) {
  save(store_, 1, "one");
  fs::remove_all(out_ / kCheckpointsName);
  save(store_, 2, "two");
  EXPECT_THAT(store_.steps(), ElementsAre(2));
}

TEST_F(PlacedStore, WritesToNoOtherDisk) {
  const fs::path elsewhere = make_elsewhere(scratch_.path());
  if (elsewhere.empty()) GTEST_SKIP() << "there is one disk";
  fs::rename(out_, scratch_ / "moved");
  fs::create_directory_symlink(elsewhere, out_);
  EXPECT_THAT([&] { save(store_, 1, "one"); },
              ThrowsMessage<Error>(HasSubstr(out_.string() + ": is on another disk than when")));
  EXPECT_TRUE(fs::is_empty(elsewhere));
  fs::remove(out_);
  fs::rename(scratch_ / "moved", out_);
  // A link that has come in the place of the folder, or leads elsewhere.
  save(store_, 1, "one");
  fs::rename(out_ / kCheckpointsName, scratch_ / "moved");
  fs::create_directory_symlink(elsewhere, out_ / kCheckpointsName);
  EXPECT_THAT([&] { save(store_, 2, "two"); },
              ThrowsMessage<Error>(HasSubstr("checkpoints: is on another disk than when")));
  EXPECT_TRUE(fs::is_empty(elsewhere));
  fs::remove(elsewhere);
}

TEST(FolderPlace, IsThatOfTheFirstTime) {
  const test::ScratchDirectory scratch;
  FolderPlace place(scratch / "late");
  place.remember();
  EXPECT_FALSE(place.is_known());
  EXPECT_NO_THROW(place.expect_kept());
  fs::create_directory(scratch / "late");
  place.remember();
  EXPECT_TRUE(place.is_known());
  fs::remove(scratch / "late");
  place.remember();
  EXPECT_THROW(place.expect_kept(), Error);
}

}  // namespace
}  // namespace dos::io::folder_place_test
