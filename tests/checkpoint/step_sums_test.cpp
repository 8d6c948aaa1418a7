// SPDX-License-Identifier: Apache-2.0
// Sums that updates leave for the checkpoint of their step: the bytes are read no more for them,
// and a checkpoint with them is what the step made.
#include "checkpoint/step_sums.hpp"

#include <gmock/gmock.h>

#include <limits>

#include "checkpoint/checkpointed_training.hpp"
#include "scratch_directory.hpp"

namespace dos::checkpoint::step_sums_test {
namespace {

using test::CheckpointedTraining;
using test::expect_intact;

TEST(StepSums, AreOfTheStepThatAskedForThem) {
  const test::ScratchDirectory scratch;
  rt::Session session({.scheduler = "", .cpu_workers = 2});
  for (const char* rule : {"adamw", "sgd"})
    // Matrices in many subgroups, in few, and pieces of several tensors in one.
    for (const Index subgroup_params : {100, 1000, 1'000'000}) {
      SCOPED_TRACE(fmt::format("{} {}", rule, subgroup_params));
      const auto out = scratch / fmt::format("{}{}", rule, subgroup_params);
      CheckpointedTraining run(session, subgroup_params, rule, out);
      for (Index step = 1; step <= 4; ++step) {
        const bool asks = step != 3;
        const Outcome outcome = run.step(step, 1e-2, asks);
        EXPECT_EQ(outcome.end, Outcome::End::kCommitted) << outcome.fault;
        EXPECT_GT(outcome.bytes, 0);
        EXPECT_EQ(outcome.summed_bytes, asks ? 0 : outcome.bytes) << step;
      }
      expect_intact(out, 4);
    }
}

TEST(StepSums, AreForgottenWithTheParameters) {
  const test::ScratchDirectory scratch;
  rt::Session session({.scheduler = "", .cpu_workers = 2});
  CheckpointedTraining run(session, 1000, "adamw", scratch / "out");
  EXPECT_EQ(run.step(5, 1e-2, true).summed_bytes, 0);
  run.writer.forget();
  run.optimizer->set_sums({});
  // As after loading: the same step, other bytes, no update.
  {
    const rt::HostAccess access(run.parameters.values()[0], rt::Mode::kReadWrite);
    access.as<float>()[0] = 7;
  }
  const Outcome outcome = run.save(5);
  EXPECT_EQ(outcome.summed_bytes, outcome.bytes);
  expect_intact(scratch / "out", 1);
}

TEST(StepSums, KnowWhatIsNotFinite) {
  const test::ScratchDirectory scratch;
  rt::Session session({.scheduler = "", .cpu_workers = 2});
  for (const bool asks : {true, false}) {
    SCOPED_TRACE(asks);
    CheckpointedTraining run(session, 1000, "sgd", scratch / fmt::format("out{}", asks),
                             /*clip=*/0);
    // Gradients above 1 overflow.
    const Outcome outcome = run.step(1, std::numeric_limits<float>::max(), asks);
    EXPECT_EQ(outcome.end, Outcome::End::kDropped);
    EXPECT_NE(outcome.bad_tensor, "");
    EXPECT_EQ(outcome.summed_bytes > 0, !asks);
  }
}

}  // namespace
}  // namespace dos::checkpoint::step_sums_test
