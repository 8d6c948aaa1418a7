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

  /// Returns what the file held when it was opened with these flags, which it is until the end.
  std::string train_holding(int flags) {
    std::string held;
    const auto made = trainer(out_);
    made->set_record_sink([&](Index step, std::span<const rt::TaskRecord>) {
      if (held_ >= 0) return;
      std::optional<fs::path> last = io::CheckpointStore(out_).last();
      // The first is confirmed then. On a busy machine those after it could be too few.
      for (int i = 0; step > 1 && !last && i < 6000; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        last = io::CheckpointStore(out_).last();
      }
      if (!last) return;
      held_ = ::open(largest_in(*last).c_str(), flags | O_CLOEXEC);
      held = bytes_held();
    });
    made->start_fresh();
    made->run();
    EXPECT_GE(held_, 0);
    return held;
  }
  [[nodiscard]] std::string bytes_held() const {
    return read_text(fmt::format("/proc/self/fd/{}", held_));
  }
  static fs::path largest_in(const fs::path& folder) {
    fs::path largest;
    for (const auto& entry : fs::directory_iterator(folder))
      if (largest.empty() || entry.file_size() > fs::file_size(largest)) largest = entry.path();
    return largest;
  }

  fs::path out_ = scratch_ / "run";
  int held_ = -1;
};

TEST_F(RecycledCheckpoint, IsWrittenOverByALaterOne) {
  const State expected = straight(kSteps);
  const std::string before = train_holding(O_PATH);
  EXPECT_NE(bytes_held(), before);
  EXPECT_EQ(saved(out_, "last"), expected);
  EXPECT_EQ(io::CheckpointStore(out_).steps(), std::vector<Index>{kSteps});
  expect_no_leftovers(out_);
}

TEST_F(RecycledCheckpoint, IsLeftToWhoReadsIt) {
  const State expected = straight(kSteps);
  const std::string before = train_holding(O_RDONLY);
  EXPECT_EQ(bytes_held(), before);
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
