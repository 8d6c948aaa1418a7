// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

#include "base/file.hpp"
#include "checkpoint/contents.hpp"
#include "leases.hpp"
#include "train/checkpoint_run.hpp"

namespace dos::train::recycled_checkpoint_test {
namespace {

namespace fs = std::filesystem;

/// A run that keeps one checkpoint, and the largest file of the first one that is seen.
class RecycledCheckpoint : public test::CheckpointRun {
 protected:
  RecycledCheckpoint() {
    config_.train.keep = 1;
    config_.train.run_ahead = 1;
  }
  RecycledCheckpoint(const RecycledCheckpoint&) = delete;
  RecycledCheckpoint& operator=(const RecycledCheckpoint&) = delete;
  ~RecycledCheckpoint() override {
    if (held_ >= 0) ::close(held_);
  }
  void SetUp() override {
    if (!test::has_leases(scratch_.path()))
      GTEST_SKIP() << scratch_.path() << ": its file system has no leases";
  }

  /// Opens the states of one of the first checkpoints with these flags, until the end. Returns what
  /// they were: of a run that ended there, as who reads them has them for itself.
  std::string train_holding(int flags) {
    const fs::path states = fs::path("checkpoints") / "last" / checkpoint::kOptimizerFile;
    fs::path name;
    const auto made = trainer(out_);
    made->set_record_sink([&](Index step, std::span<const rt::TaskRecord>) {
      // The first is confirmed when the second step has ended. On a busy machine those after it
      // could be too few.
      for (int i = 0; step > 1 && held_ < 0 && i < 6000; ++i) {
        held_ = ::open((out_ / states).c_str(), flags | O_CLOEXEC);
        if (held_ < 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
      if (name.empty() && held_ >= 0) name = fs::read_symlink(link_of_held());
    });
    made->start_fresh();
    made->run();
    const std::string folder = name.parent_path().filename();
    EXPECT_THAT(folder, testing::StartsWith("step-")) << name;
    straight(std::stoll(folder.substr(std::string("step-").size())));
    return read_text(scratch_ / "straight" / states);
  }
  [[nodiscard]] std::string link_of_held() const { return fmt::format("/proc/self/fd/{}", held_); }
  [[nodiscard]] std::string bytes_held() const { return read_text(link_of_held()); }

  fs::path out_ = scratch_ / "run";
  int held_ = -1;
};

TEST_F(RecycledCheckpoint, IsWrittenOverByALaterOne) {
  const State expected = straight(kSteps);
  const std::string before = train_holding(O_PATH);
  EXPECT_FALSE(bytes_held() == before);
  EXPECT_EQ(saved(out_, "last"), expected);
  EXPECT_EQ(io::CheckpointStore(out_).steps(), std::vector<Index>{kSteps});
  expect_no_leftovers(out_);
}

TEST_F(RecycledCheckpoint, IsLeftToWhoReadsIt) {
  const State expected = straight(kSteps);
  const std::string before = train_holding(O_RDONLY);
  EXPECT_TRUE(bytes_held() == before);
  EXPECT_EQ(saved(out_, "last"), expected);
  expect_no_leftovers(out_);
}

// Copies to the second level write over those that are removed there.
TEST_F(RecycledCheckpoint, OfTwoLevelsIsWhatTheStepMade) {
  config_.train.checkpoint_local = (scratch_ / "local").string();
  config_.train.checkpoint_copy_every = 1;
  const State expected = straight(kSteps);
  EXPECT_EQ(train(out_), expected);
  EXPECT_EQ(saved(out_, "last"), expected);
  EXPECT_EQ(io::CheckpointStore(out_).steps(), std::vector<Index>{kSteps});
  expect_no_leftovers(out_);
}

}  // namespace
}  // namespace dos::train::recycled_checkpoint_test
