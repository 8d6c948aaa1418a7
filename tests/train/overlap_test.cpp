// SPDX-License-Identifier: Apache-2.0
// That nothing but data dependencies orders the phases, seen in the recorded times of a real run.
//
// A task that depends on another starts after that one's recorded end, so with a barrier between
// two sets of tasks no task of the second starts before the last end of the first, and the two
// predicates below are false whatever the load of the machine. Without one, a single pair in the
// whole run makes them true. TrainingWithABarrier is the proof: train.run_ahead = 1 is a barrier.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <vector>

#include "base/random.hpp"
#include "codelets/tokens/tokens_codelet.hpp"
#include "data/token_file.hpp"
#include "platform/blas.hpp"
#include "scratch_directory.hpp"
#include "train/trainer.hpp"

namespace dos::train::overlap_test {
namespace {

constexpr Index kSteps = 24;
constexpr Index kVocabulary = 256;
const shape::ModelConfig kModel{"gpt2", 3, 96, 3, 48, kVocabulary};

struct Interval {
  double start_us;
  double end_us;
};
/// The tasks of one step by phase. Putting tokens into buffers needs no weights: it is left out.
using StepTasks = std::map<rt::Phase, std::vector<Interval>>;
using Recording = std::map<Index, StepTasks>;

void write_tokens(const std::filesystem::path& path, Index count) {
  const Philox random(1);
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = static_cast<std::int32_t>(random.uniform(i) * kVocabulary);
  data::TokenWriter writer(path, kVocabulary);
  writer.append(tokens);
  writer.commit();
}

Recording record_run(double clip, Index run_ahead) {
  const test::ScratchDirectory scratch;
  write_tokens(scratch / "data_train.bin", 5000);
  write_tokens(scratch / "data_val.bin", 1000);
  config::TrainConfig config;
  config.data.path = scratch / "data";
  config.train.steps = kSteps;
  config.train.batch = 4;
  config.train.lanes = 1;
  config.train.run_ahead = run_ahead;
  config.train.validate_every = 0;
  config.train.validate_batches = 1;
  config.optim.clip = clip;
  config.sched.subgroup_params = 10'000;
  config.validate();
  platform::blas::use_one_thread();
  rt::Session session({.scheduler = "", .cpu_workers = 2});
  Trainer trainer(session, {.run = make_run(config, kModel),
                            .out = scratch / "out",
                            .sources = data::open_sources(config.data_sources()),
                            .tokenizer = nullptr,
                            .quiet = true});
  Recording recording;
  trainer.set_record_sink([&](Index step, std::span<const rt::TaskRecord> records) {
    for (const rt::TaskRecord& record : records)
      if (record.codelet != &codelets::codelet_of<codelets::LoadTokens>())
        recording[step][record.tag.phase].push_back({record.start_us, record.end_us});
  });
  std::filesystem::create_directories(scratch / "out");
  trainer.start_fresh();
  trainer.run();
  return recording;
}

double first_start(const std::vector<Interval>& tasks) {
  double first = std::numeric_limits<double>::infinity();
  for (const Interval& task : tasks) first = std::min(first, task.start_us);
  return first;
}

double last_end(const std::vector<Interval>& tasks) {
  double last = 0;
  for (const Interval& task : tasks) last = std::max(last, task.end_us);
  return last;
}

double first_start(const StepTasks& step) {
  double first = std::numeric_limits<double>::infinity();
  for (const auto& [phase, tasks] : step) first = std::min(first, first_start(tasks));
  return first;
}

double last_end(const StepTasks& step) {
  double last = 0;
  for (const auto& [phase, tasks] : step) last = std::max(last, last_end(tasks));
  return last;
}

/// Steps t of which an update was still to end when the model of step t + 1 was already running.
Index steps_that_run_into_the_next(const Recording& recording) {
  Index count = 0;
  for (Index step = 1; step < kSteps; ++step) {
    const StepTasks& next = recording.at(step + 1);
    const double model_starts = std::min(first_start(next.at(rt::Phase::kForward)),
                                         first_start(next.at(rt::Phase::kBackward)));
    if (last_end(recording.at(step).at(rt::Phase::kUpdate)) > model_starts) ++count;
  }
  return count;
}

/// Steps of which an update started before the last backward task ended.
Index steps_that_update_during_backward(const Recording& recording) {
  Index count = 0;
  for (const auto& [step, tasks] : recording)
    if (first_start(tasks.at(rt::Phase::kUpdate)) < last_end(tasks.at(rt::Phase::kBackward)))
      ++count;
  return count;
}

void expect_at_most_in_flight(const Recording& recording, Index run_ahead) {
  for (Index step = 1; step + run_ahead <= kSteps; ++step)
    EXPECT_GE(first_start(recording.at(step + run_ahead)), last_end(recording.at(step))) << step;
}

TEST(Overlap, UpdatesRunIntoTheNextStepWithClipping) {
  const Recording recording = record_run(/*clip=*/1.0, /*run_ahead=*/2);
  ASSERT_EQ(std::ssize(recording), kSteps);
  EXPECT_GE(steps_that_run_into_the_next(recording), 1);
  // The clip factor needs the whole gradient, so here the second predicate must be false.
  EXPECT_EQ(steps_that_update_during_backward(recording), 0);
  expect_at_most_in_flight(recording, 2);
}

TEST(Overlap, UpdatesRunDuringBackwardWithoutClipping) {
  const Recording recording = record_run(/*clip=*/0.0, /*run_ahead=*/2);
  ASSERT_EQ(std::ssize(recording), kSteps);
  EXPECT_GE(steps_that_update_during_backward(recording), 1);
  EXPECT_GE(steps_that_run_into_the_next(recording), 1);
  expect_at_most_in_flight(recording, 2);
}

TEST(Overlap, TrainingWithABarrierDoesNotOverlap) {
  const Recording recording = record_run(/*clip=*/1.0, /*run_ahead=*/1);
  ASSERT_EQ(std::ssize(recording), kSteps);
  EXPECT_EQ(steps_that_run_into_the_next(recording), 0);
  EXPECT_EQ(steps_that_update_during_backward(recording), 0);
  expect_at_most_in_flight(recording, 1);
}

TEST(Overlap, ThreeStepsAheadAreThree) {
  const Recording recording = record_run(/*clip=*/1.0, /*run_ahead=*/3);
  expect_at_most_in_flight(recording, 3);
}

}  // namespace
}  // namespace dos::train::overlap_test
