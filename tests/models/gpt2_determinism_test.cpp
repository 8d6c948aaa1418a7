// SPDX-License-Identifier: Apache-2.0
// What gives the same bits: with equal lanes, logits_rows and subgroup size every sum has one
// order, that of submission. So worker count, scheduler, recomputation and repetition change
// nothing. Another number of lanes, another logits_rows or another subgroup size is another order
// of sums: those are compared with PyTorch, within tolerances, by gpt2_reference_test.
#include <gtest/gtest.h>

#include <cstring>

#include "base/random.hpp"
#include "models/training_run.hpp"

namespace dos::test {
namespace {

// Five layers: with recompute the activations of two exist at a time, so that those of the first
// three are lost and computed again. A width that no vector length divides.
const models::ModelConfig kModel{"gpt2", 5, 36, 3, 19, 83};
constexpr Index kBatch = 3;
constexpr Index kSteps = 3;

RunOptions base_options() {
  return {.model = kModel,
          .shape = {.batch = kBatch,
                    .lanes = 2,
                    .recompute = false,
                    .training = true,
                    .logits_rows = 11},
          .subgroup_params = 1000,
          .workers = 2,
          .scheduler = "lws",
          .optimizer = {.clip = 0.5F},
          .decay = {}};
}

/// Losses, norms, values, gradients and moments after a few steps of two micro-batches.
struct Outcome {
  std::vector<double> scalars;
  std::vector<float> elements;

  bool operator==(const Outcome& other) const {
    const auto same = [](const auto& a, const auto& b) {
      return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof a[0]) == 0;
    };
    return same(scalars, other.scalars) && same(elements, other.elements);
  }
};

Outcome outcome_of(const RunOptions& options) {
  TrainingRun run(options);
  run.initialise(7);
  const Philox random(11);
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(2 * kBatch * (kModel.context + 1)));
  Outcome outcome;
  for (Index step = 1; step <= kSteps; ++step) {
    for (std::size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = static_cast<std::int32_t>(random.uniform(i, static_cast<std::uint64_t>(step)) *
                                            static_cast<double>(kModel.vocabulary));
    outcome.scalars.push_back(run.gradients(tokens));
    outcome.scalars.push_back(run.update(step, 1e-2));
  }
  outcome.elements = run.everything();
  return outcome;
}

class Gpt2Determinism : public ::testing::Test {
 protected:
  static const Outcome& base() {
    static const Outcome outcome = outcome_of(base_options());
    return outcome;
  }
};

TEST_F(Gpt2Determinism, TheSameRunTwice) {
  EXPECT_TRUE(outcome_of(base_options()) == base());
}

TEST_F(Gpt2Determinism, RecomputeOrNot) {
  RunOptions options = base_options();
  options.shape.recompute = true;
  EXPECT_TRUE(outcome_of(options) == base());
}

TEST_F(Gpt2Determinism, OneWorkerOrTwoOrThree) {
  for (const Index workers : {1, 3}) {
    RunOptions options = base_options();
    options.workers = workers;
    EXPECT_TRUE(outcome_of(options) == base()) << workers;
  }
}

TEST_F(Gpt2Determinism, AnyScheduler) {
  for (const char* scheduler : {"eager", "prio", "random", "ws", "dmda"}) {
    RunOptions options = base_options();
    options.scheduler = scheduler;
    EXPECT_TRUE(outcome_of(options) == base()) << scheduler;
  }
}

// Without clipping an update may run while backward is still under way.
TEST_F(Gpt2Determinism, WithoutClipping) {
  RunOptions options = base_options();
  options.optimizer.clip = 0;
  const Outcome two = outcome_of(options);
  EXPECT_FALSE(two == base());
  options.workers = 1;
  options.scheduler = "eager";
  EXPECT_TRUE(outcome_of(options) == two);
}

// Sums of gradients in BF16 are rounded in the same places too.
TEST_F(Gpt2Determinism, InBf16) {
  RunOptions options = base_options();
  for (const DType gradient : {DType::kF32, DType::kBF16}) {
    options.types = {.working = DType::kBF16, .gradient = gradient};
    const Outcome outcome = outcome_of(options);
    EXPECT_FALSE(outcome == base());
    RunOptions changed = options;
    changed.workers = 3;
    changed.scheduler = "random";
    changed.shape.recompute = true;
    EXPECT_TRUE(outcome_of(changed) == outcome) << name_of(gradient);
  }
}

// The comparison sees a difference: another order of the lanes' sums.
TEST_F(Gpt2Determinism, AnotherNumberOfLanesIsAnotherOrderOfSums) {
  RunOptions options = base_options();
  options.shape.lanes = 1;
  EXPECT_FALSE(outcome_of(options) == base());
}

}  // namespace
}  // namespace dos::test
