// SPDX-License-Identifier: Apache-2.0
#include "train/data_feed.hpp"

#include <gmock/gmock.h>

#include <algorithm>

#include "base/error.hpp"
#include "train/tiny_trainer.hpp"

namespace dos::train::data_feed_test {
namespace {

using testing::HasSubstr;
using testing::Optional;

class DataFeedTest : public testing::Test {
 protected:
  [[nodiscard]] DataFeed feed(const ranks::RankShare& share = {}) const {
    return {data::open_sources(config_.data_sources()), test::tiny_run(config_).with(share)};
  }
  /// Steps that can be taken before the fault is known, and after.
  struct Taken {
    Index before = 0;
    Index after = 0;
  };
  [[nodiscard]] Taken take_all(DataFeed& feed) const {
    Taken taken;
    for (Index step = 0; step < config_.last_step(); ++step) {
      try {
        feed.fault() ? ++taken.after : ++taken.before;
        static_cast<void>(feed.take());
      } catch (const ContractViolation&) {
        --taken.after;
        break;
      }
    }
    return taken;
  }

  test::ScratchDirectory scratch_;
  config::TrainConfig config_ = test::tiny_config(test::write_tiny_dataset(scratch_));
};

TEST_F(DataFeedTest, TakesWhatItReads) {
  config_.train.accumulate = 2;
  DataFeed feed = this->feed();
  feed.start(2, 12);
  for (Index step = 3; step <= config_.last_step(); ++step) EXPECT_EQ(feed.take(), feed.read(step));
  EXPECT_EQ(feed.samples_after(5), 12 + 3 * 6);
  EXPECT_EQ(feed.read(3).size(), 2U);
  EXPECT_EQ(feed.fault(), std::nullopt);
  EXPECT_THROW(feed.take(), ContractViolation) << "the run's last step was taken";
}

TEST_F(DataFeedTest, ARankReadsItsOwnPart) {
  DataFeed alone = feed();
  alone.start(0, 0);
  config_.train.batch = 1;
  for (Index rank = 0; rank < 3; ++rank) {
    ranks::RankShare share;
    share.rank = rank;
    share.ranks = 3;
    DataFeed part = feed(share);
    part.start(0, 0);
    const auto whole = alone.read(1).front();
    const auto row = static_cast<std::size_t>(rank) * (whole.size() / 3);
    const std::vector<std::int32_t> mine(whole.begin() + static_cast<std::ptrdiff_t>(row),
                                         whole.begin() + static_cast<std::ptrdiff_t>(row) + 9);
    EXPECT_EQ(part.take().front(), mine);
  }
}

TEST_F(DataFeedTest, CountsTheTargetsOfAllRanks) {
  DataFeed plain = feed();
  plain.start(0, 0);
  EXPECT_FALSE(plain.has_mask());
  EXPECT_EQ(plain.targets(1), 3 * 8);
  EXPECT_EQ(plain.validation_targets(), 3 * 8);
  config_.data.path = test::write_masked_tiny_dataset(scratch_);
  config_.train.accumulate = 2;
  const auto counted = [](const DataFeed::MicroBatches& batches) {
    Index count = 0;
    for (const auto& batch : batches)
      for (std::size_t i = 0; i < batch.size(); ++i)
        if (i % 9 != 0 && batch[i] >= 0) ++count;
    return count;
  };
  const auto of_rank = [](Index rank) {
    ranks::RankShare share;
    share.rank = rank;
    share.ranks = 2;
    return share;
  };
  DataFeed first = feed(of_rank(0));
  DataFeed second = feed(of_rank(1));
  EXPECT_TRUE(first.has_mask());
  bool differ = false;
  for (Index step = 1; step <= config_.last_step(); ++step) {
    const Index of_first = counted(first.read(step));
    const Index of_second = counted(second.read(step));
    EXPECT_GE(std::min(of_first, of_second), 6) << "a window without a target";
    differ = differ || of_first != of_second;
    EXPECT_EQ(first.targets(step), of_first + of_second);
    EXPECT_EQ(second.targets(step), first.targets(step));
  }
  EXPECT_TRUE(differ);
  EXPECT_EQ(first.validation_targets(),
            counted(first.read_validation()) + counted(second.read_validation()));
}

TEST_F(DataFeedTest, ABadStepIsKnownRunAheadStepsBefore) {
  config_.train.steps = 40;
  for (const Index run_ahead : {1, 2, 5}) {
    config_.train.run_ahead = run_ahead;
    DataFeed feed = this->feed();
    feed.start(0, 0);
    const auto size = std::filesystem::file_size(scratch_ / "data_train.bin");
    std::filesystem::resize_file(scratch_ / "data_train.bin", size / 2 + 512);
    const Taken taken = take_all(feed);
    EXPECT_THAT(feed.fault(), Optional(HasSubstr("was cut short")));
    // Of the step that was taken when it became known, and those that may be at work beside it.
    EXPECT_EQ(taken.after, run_ahead - 1);
    EXPECT_GT(taken.before, 0);
    config_.data.path = test::write_tiny_dataset(scratch_);
  }
}

TEST_F(DataFeedTest, NothingStartsWithoutItsFirstStep) {
  config_.model.vocab = 2;
  DataFeed feed = this->feed();
  EXPECT_THAT([&] { feed.start(0, 0); }, testing::ThrowsMessage<Error>(HasSubstr("is outside")));
  EXPECT_THAT([&] { (void)feed.read_validation(); },
              testing::ThrowsMessage<Error>(HasSubstr("data_val.bin: token ")));
}

}  // namespace
}  // namespace dos::train::data_feed_test
