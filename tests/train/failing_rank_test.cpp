// SPDX-License-Identifier: Apache-2.0
// Started by mpiexec on several ranks: every rank runs every test. Storage fails the last of them.
#include <gmock/gmock.h>

#include <cerrno>
#include <set>
#include <string>

#include "base/sanitizer.hpp"
#include "checkpoint/part_reader.hpp"
#include "message_of.hpp"
#include "storage/engine.hpp"
#include "storage/faulty_backend.hpp"
#include "train/checkpoint_of_ranks.hpp"

namespace dos::train::failing_rank_test {
namespace {

using ranks::environment;
using testing::HasSubstr;

class FailingRank : public test::CheckpointOfRanks {
 protected:
  void SetUp() override {
    CheckpointOfRanks::SetUp();
    config_.train.steps = 3;
    config_.train.checkpoint_every = 1;
    config_.train.keep = 3;
  }

  /// A run of which operation `k` of the last rank fails. Counts those of this rank.
  [[nodiscard]] std::unique_ptr<Trainer> failing(const std::filesystem::path& out, Index k) {
    const bool is_last = environment->rank() == environment->size() - 1;
    operations_ = 0;
    return make(session_, {.subgroup_params = 100'000}, out, [this, is_last, k] {
      return std::make_unique<test::FaultyBackend>(
          storage::make_backend(), [this, is_last, k](Index number, const storage::Operation&) {
            operations_ = number + 1;
            return test::Mishap{.error = is_last && number == k ? EIO : 0};
          });
    });
  }
  void train(const std::filesystem::path& out, Index k) {
    const auto trainer = failing(out, k);
    trainer->start_fresh();
    trainer->run();
    wait_for_all();
    EXPECT_TRUE(holds(*trainer, out / "checkpoints" / "last"));
  }
  /// Of the last rank, told to all.
  Index operations() {
    return std::stol(ranks::gather_texts(*exchange_, std::to_string(operations_)).back());
  }

  rt::Session session_{{.scheduler = "", .cpu_workers = 1}};
  Index operations_ = 0;
};

// All leave the checkpoint out that it is of: those before and behind it are there.
TEST_F(FailingRank, HasOneCheckpointGivenUpByAll) {
  train(folder_ / "whole", -1);
  const Index count = operations();
  ASSERT_GT(count, 10);
  storage::Engine engine;
  std::set<Index> missed;
  for (Index k = 0; k < count; k += kIsSanitized ? 7 : 1) {
    SCOPED_TRACE(k);
    const auto out = folder_ / fmt::format("run{}", k);
    train(out, k);
    const std::vector<Index> steps = io::CheckpointStore(out).steps();
    EXPECT_GE(std::ssize(steps), 2);
    EXPECT_EQ(steps.back(), 3);
    for (const Index step : {1, 2})
      if (!std::ranges::binary_search(steps, step)) missed.insert(step);
    if (environment->rank() == 0)
      for (const Index step : steps) {
        const CheckpointReader reader(out, std::to_string(step));
        EXPECT_NO_THROW(checkpoint::verify(engine, reader.folder(), reader.manifest()));
      }
    wait_for_all();
  }
  EXPECT_THAT(missed, testing::ElementsAre(1, 2));
}

// All say so, and all can go on from the checkpoint before.
TEST_F(FailingRank, ResumesWithTheOthers) {
  const auto run = folder_ / "run";
  train(run, -1);
  const auto whole = failing(folder_ / "whole", -1);
  whole->resume(CheckpointReader(run, "3"));
  const Index count = operations();
  ASSERT_GT(count, 10);
  for (Index k = 0; k < count; k += kIsSanitized ? 7 : 1) {
    SCOPED_TRACE(k);
    const auto resumed = failing(folder_ / "other", k);
    const std::string message =
        test::message_of<Error>([&] { resumed->resume(CheckpointReader(run, "3")); });
    EXPECT_THAT(message, HasSubstr("checkpoints/step-00000003/"));
    EXPECT_THAT(message, HasSubstr("Input/output error"));
    const CheckpointReader before(run, "2");
    resumed->resume(before);
    EXPECT_TRUE(holds(*resumed, before.folder()));
    wait_for_all();
  }
}

}  // namespace
}  // namespace dos::train::failing_rank_test
