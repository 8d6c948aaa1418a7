// SPDX-License-Identifier: Apache-2.0
// What gives the same bits: with equal lanes, logits_rows and subgroup size every sum has one
// order, that of submission. So worker count, scheduler, recomputation and repetition change
// nothing. Another number of lanes, another logits_rows or another subgroup size is another order
// of sums: those are compared with PyTorch, within tolerances, by gpt2_reference_test.
#include <gtest/gtest.h>

#include "models/training_outcome.hpp"

namespace dos::test::gpt2_determinism_test {
namespace {

// Five layers: with recompute the activations of two exist at a time, so that those of the first
// three are lost and computed again. A width that no vector length divides.
const shape::ModelConfig kModel{"gpt2", 5, 36, 3, 19, 83};

RunOptions base_options() {
  return {.model = kModel,
          .shape = {.batch = 3, .lanes = 2, .training = true, .logits_rows = 11},
          .subgroup_params = 1000,
          .workers = 2,
          .scheduler = "lws",
          .optimizer = {.clip = 0.5F},
          .decay = {}};
}

class Gpt2Determinism : public ::testing::Test {
 protected:
  static const TrainingOutcome& base() {
    static const TrainingOutcome outcome = train(base_options());
    return outcome;
  }
};

TEST_F(Gpt2Determinism, TheSameRunTwice) {
  EXPECT_TRUE(train(base_options()) == base());
}

TEST_F(Gpt2Determinism, RecomputeOrNot) {
  RunOptions options = base_options();
  options.shape.activations = shape::kRecomputeAll;
  EXPECT_TRUE(train(options) == base());
}

TEST_F(Gpt2Determinism, OneWorkerOrTwoOrThree) {
  for (const Index workers : {1, 3}) {
    RunOptions options = base_options();
    options.workers = workers;
    EXPECT_TRUE(train(options) == base()) << workers;
  }
}

TEST_F(Gpt2Determinism, AnyScheduler) {
  for (const char* scheduler : {"eager", "prio", "random", "ws", "dmda"}) {
    RunOptions options = base_options();
    options.scheduler = scheduler;
    EXPECT_TRUE(train(options) == base()) << scheduler;
  }
}

// Without clipping an update may run while backward is still under way.
TEST_F(Gpt2Determinism, WithoutClipping) {
  RunOptions options = base_options();
  options.optimizer.clip = 0;
  const TrainingOutcome two = train(options);
  EXPECT_FALSE(two == base());
  options.workers = 1;
  options.scheduler = "eager";
  EXPECT_TRUE(train(options) == two);
}

// Sums of gradients in BF16 are rounded in the same places too.
TEST_F(Gpt2Determinism, InBf16) {
  RunOptions options = base_options();
  for (const DType gradient : {DType::kF32, DType::kBF16}) {
    options.types = {.working = DType::kBF16, .gradient = gradient};
    const TrainingOutcome outcome = train(options);
    EXPECT_FALSE(outcome == base());
    RunOptions changed = options;
    changed.workers = 3;
    changed.scheduler = "random";
    changed.shape.activations = shape::kRecomputeAll;
    EXPECT_TRUE(train(changed) == outcome) << name_of(gradient);
  }
}

// The comparison sees a difference: another order of the lanes' sums.
TEST_F(Gpt2Determinism, AnotherNumberOfLanesIsAnotherOrderOfSums) {
  RunOptions options = base_options();
  options.shape.lanes = 1;
  EXPECT_FALSE(train(options) == base());
}

}  // namespace
}  // namespace dos::test::gpt2_determinism_test
