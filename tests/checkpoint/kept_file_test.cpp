// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/kept_file.hpp"

#include <gmock/gmock.h>

#include "base/file.hpp"
#include "scratch_directory.hpp"

namespace dos::checkpoint::kept_file_test {
namespace {

namespace fs = std::filesystem;

class Kept : public testing::Test {
 protected:
  Kept() { write_durably(scratch_ / "first", "bytes"); }

  void keep(const io::CheckpointStore& store, const char* name) {
    kept_.keep(store, scratch_ / name, record_);
  }
  bool link(const io::CheckpointStore& store, const char* name) {
    return kept_.link(store, scratch_ / name);
  }

  test::ScratchDirectory scratch_;
  const io::FileRecord record_{.name = "frozen.safetensors", .tensors = {}};
  const io::CheckpointStore here_{scratch_ / "here"};
  const io::CheckpointStore elsewhere_{scratch_ / "elsewhere"};
  KeptFile kept_;
};

TEST_F(Kept, HasNothingAtFirst) {
  EXPECT_EQ(kept_.in(here_), std::nullopt);
  EXPECT_FALSE(link(here_, "second"));
}

TEST_F(Kept, IsGivenASecondName) {
  keep(here_, "first");
  EXPECT_EQ(kept_.in(here_), record_);
  ASSERT_TRUE(link(here_, "second"));
  fs::remove(scratch_ / "first");
  EXPECT_EQ(read_text(scratch_ / "second"), "bytes");
  EXPECT_FALSE(link(here_, "third")) << "it is known by the name that is gone";
  keep(here_, "second");
  EXPECT_TRUE(link(here_, "third"));
}

TEST_F(Kept, IsThatOfItsStore) {
  keep(here_, "first");
  EXPECT_EQ(kept_.in(elsewhere_), std::nullopt);
  EXPECT_FALSE(link(elsewhere_, "second"));
}

TEST_F(Kept, IsNotTakenWithAnotherSize) {
  keep(here_, "first");
  write_durably(scratch_ / "first", "byte");
  EXPECT_FALSE(link(here_, "second"));
  EXPECT_FALSE(fs::exists(scratch_ / "second"));
}

// As where the answer of a network's file system was lost.
TEST_F(Kept, HasNoSecondNameAfterAFailure) {
  keep(here_, "first");
  fs::create_hard_link(scratch_ / "first", scratch_ / "second");
  EXPECT_FALSE(link(here_, "second"));
  EXPECT_FALSE(fs::exists(scratch_ / "second"));
  EXPECT_EQ(read_text(scratch_ / "first"), "bytes");
}

TEST_F(Kept, StaysWhereTheNextWasRemovedAtOnce) {
  keep(here_, "first");
  keep(here_, "second");
  EXPECT_TRUE(link(here_, "third"));
}

TEST_F(Kept, IsOneWhereTwoWereWritten) {
  keep(here_, "first");
  write_durably(scratch_ / "second", "bytes");
  keep(here_, "second");
  ASSERT_TRUE(link(here_, "third"));
  EXPECT_TRUE(fs::equivalent(scratch_ / "third", scratch_ / "first"));
  fs::remove(scratch_ / "first");
  keep(here_, "second");
  ASSERT_TRUE(link(here_, "fourth"));
  EXPECT_TRUE(fs::equivalent(scratch_ / "fourth", scratch_ / "second"));
}

TEST_F(Kept, IsForgotten) {
  keep(here_, "first");
  kept_.forget();
  EXPECT_EQ(kept_.in(here_), std::nullopt);
  EXPECT_FALSE(link(here_, "second"));
}

}  // namespace
}  // namespace dos::checkpoint::kept_file_test
