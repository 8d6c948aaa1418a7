// SPDX-License-Identifier: Apache-2.0
// Checkpoints that are written while training goes on, on storage of all kinds: training's bits are
// those of a run without them, and what is there is what was trained.
#include <gmock/gmock.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <future>
#include <mutex>
#include <random>
#include <thread>

#include "base/sanitizer.hpp"
#include "fails_with.hpp"
#include "message_of.hpp"
#include "train/checkpoint_run.hpp"

namespace dos::train::lazy_checkpoint_test {
namespace {

using storage::Kind;
using storage::Operation;
using test::Mishap;
using test::state_of;
using testing::AnyOf;
using testing::HasSubstr;

using Plan = test::FaultyBackend::Plan;
using State = test::CheckpointRun::State;

class LazyCheckpoint : public test::CheckpointRun {
 protected:
  /// Of all checkpoints that ended before the run did.
  static double megabytes_copied(const std::filesystem::path& out) {
    double sum = 0;
    std::ifstream lines(out / "metrics.jsonl");
    for (std::string line; std::getline(lines, line);)
      sum += nlohmann::json::parse(line).value("mb_checkpoint_copied", 0.0);
    return sum;
  }
};

TEST_F(LazyCheckpoint, OfEveryStepIsWhatTheStepMade) {
  for (const double clip : {1.0, 0.0}) {
    config_.optim.clip = clip;
    const std::vector<State> expected = straight_steps();
    for (const Index run_ahead : {1, 2, 5}) {
      SCOPED_TRACE(fmt::format("clip {} run_ahead {}", clip, run_ahead));
      config_.train.run_ahead = run_ahead;
      const auto out = scratch_ / fmt::format("run{}{}", clip, run_ahead);
      EXPECT_EQ(train(out), expected.back());
      for (Index step = 1; step <= kSteps; ++step)
        EXPECT_EQ(saved(out, std::to_string(step)), expected[static_cast<std::size_t>(step - 1)])
            << step;
      expect_no_leftovers(out);
    }
  }
}

// Each operation takes so long that updates come before the states of the step before are written.
TEST_F(LazyCheckpoint, OnASlowDiskIsWhatTheStepMade) {
  for (const double clip : {1.0, 0.0}) {
    SCOPED_TRACE(clip);
    config_.optim.clip = clip;
    const auto out = scratch_ / fmt::format("run{}", clip);
    const Plan slow = [](Index, const Operation&) {
      return Mishap{.delay = std::chrono::milliseconds(1)};
    };
    const std::vector<State> expected = straight_steps();
    EXPECT_EQ(train(out, slow), expected.back());
    EXPECT_GT(megabytes_copied(out), 0) << "updates wait for the disk alone";
    for (Index step = 1; step <= kSteps; ++step)
      EXPECT_EQ(saved(out, std::to_string(step)), expected[static_cast<std::size_t>(step - 1)])
          << step;
  }
}

// What the least of buffers has no room for, more memory takes.
TEST_F(LazyCheckpoint, MemoryTakesWhatTheDiskHasNot) {
  config_.train.steps = 4;
  const Plan slow = [](Index, const Operation& operation) {
    return Mishap{.delay = std::chrono::milliseconds(operation.kind == Kind::kWrite ? 2 : 0)};
  };
  double copied[2] = {};
  for (const bool has_memory : {false, true}) {
    config_.train.checkpoint_memory = has_memory ? 1 : 0;
    const auto out = scratch_ / fmt::format("run{}", has_memory);
    EXPECT_EQ(train(out, slow), straight(4));
    copied[has_memory] = megabytes_copied(out);
  }
  EXPECT_GT(copied[1], copied[0]);
}

TEST_F(LazyCheckpoint, GivenUpCostsNothingElse) {
  config_.train.steps = 3;
  config_.sched.subgroup_params = 100'000;
  std::vector<State> expected{{}};
  for (Index step = 1; step <= 3; ++step) expected.push_back(straight(step));
  train(scratch_ / "whole", [](Index, const Operation&) { return Mishap{}; });
  const Index operations = operations_;
  ASSERT_GT(operations, 100);
  // Every operation of the first checkpoint, and some of the later ones.
  std::mt19937_64 random(1);
  const Index dense = kIsSanitized ? 10 : 1;
  for (Index k = 0; k < operations;
       k += k < operations / 3 ? dense : dense + static_cast<Index>(random() % 17)) {
    SCOPED_TRACE(k);
    const auto out = scratch_ / fmt::format("run{}", k);
    const int error = k % 2 == 0 ? ENOSPC : EIO;
    const State state = train(out, [&](Index number, const Operation&) {
      return Mishap{.error = number == k ? error : 0};
    });
    EXPECT_EQ(state, expected.back());
    EXPECT_EQ(saved(out, "last"), expected.back());
    const std::vector<Index> steps = io::CheckpointStore(out).steps();
    EXPECT_GE(std::ssize(steps), 2) << "one was hit";
    EXPECT_EQ(saved(out, std::to_string(steps.front())),
              expected[static_cast<std::size_t>(steps.front())]);
    expect_no_leftovers(out);
    std::filesystem::remove_all(out);
  }
}

TEST_F(LazyCheckpoint, OnADeviceThatFailsForGoodEndsTheRunAtItsEnd) {
  const auto out = scratch_ / "run";
  Index failing_from = 0;
  const auto made = trainer(out, {[&](Index number, const Operation&) {
                              return Mishap{.error = number >= failing_from ? ENOSPC : 0};
                            }});
  made->start_fresh();
  testing::internal::CaptureStdout();
  const std::string message = test::message_of<Error>([&] { made->run(); });
  const std::string said = testing::internal::GetCapturedStdout();
  EXPECT_THAT(said, HasSubstr("step 1: no checkpoint: "));
  EXPECT_THAT(said, HasSubstr("training goes on"));
  const std::string second_try = said.substr(said.rfind("step 6: no checkpoint: "));
  EXPECT_THAT(second_try, testing::Not(HasSubstr("training goes on")));
  EXPECT_THAT(message, HasSubstr("step 6: the last checkpoint cannot be written: "));
  EXPECT_THAT(message, HasSubstr("No space left on device; no checkpoint was written yet"));
  EXPECT_EQ(state_of(*made), straight(kSteps)) << "training went on";
  EXPECT_EQ(io::CheckpointStore(out).steps(), std::vector<Index>{});
  expect_no_leftovers(out);
  EXPECT_EQ(std::filesystem::exists(out / "checkpoints" / "last"), false);
}

// What a failure takes says nothing of what a checkpoint does: every third step, as at first.
TEST_F(LazyCheckpoint, OnADeviceThatFailsForGoodComesNoMoreOften) {
  config_.train.steps = 12;
  config_.train.checkpoint_every = config::kAuto;
  config_.train.run_ahead = 1;
  const auto made =
      trainer(scratch_ / "run", {[](Index, const Operation&) { return Mishap{.error = ENOSPC}; }});
  made->start_fresh();
  EXPECT_THROW(made->run(), Error);
  // One operation each: of steps 3, 6, 9 and 12, and of 12 once more.
  EXPECT_LE(operations_, 5);
}

TEST_F(LazyCheckpoint, OnADeviceThatFailsLaterLeavesTheLastGoodOne) {
  train(scratch_ / "whole", [](Index, const Operation&) { return Mishap{}; });
  const Index half = operations_ / 2;
  const auto out = scratch_ / "run";
  const auto made =
      trainer(out, {[&](Index number, const Operation& operation) {
                return Mishap{.error = number >= half && operation.kind != Kind::kRead ? EIO : 0};
              }});
  made->start_fresh();
  const std::string message = test::message_of<Error>([&] { made->run(); });
  EXPECT_THAT(message, HasSubstr("Input/output error; the checkpoint of step "));
  const std::vector<Index> steps = io::CheckpointStore(out).steps();
  ASSERT_FALSE(steps.empty());
  EXPECT_LT(steps.back(), kSteps);
  EXPECT_THAT(message, HasSubstr(fmt::format("the checkpoint of step {} is intact", steps.back())));
  EXPECT_EQ(saved(out, "last"), straight(steps.back()));
  EXPECT_EQ(state_of(*made), straight(kSteps));
}

/// Runs whose device does not flush what is written before the step has ended.
class HungDevice : public test::CheckpointRun {
 protected:
  State train_behind(const std::filesystem::path& out, Index step,
                     std::chrono::milliseconds patience) {
    test::Gate gate;
    const auto made =
        trainer(out, {[&](Index, const Operation& operation) {
                  return Mishap{.gate = operation.kind == Kind::kSync ? &gate : nullptr};
                }});
    made->set_checkpoint_patience(patience);
    made->set_record_sink([&](Index ended, std::span<const rt::TaskRecord>) {
      if (ended == step) gate.open();
    });
    made->start_fresh();
    made->run();
    return state_of(*made);
  }

  /// Writes that `hangs` says end when the step `opens` has; `ended`: the last step before.
  auto trainer_behind(const std::filesystem::path& out, test::Gate& gate,
                      bool (*hangs)(const Operation&), Index opens, Index& ended) {
    auto made = trainer(out, {[&gate, hangs](Index, const Operation& operation) {
                          const bool is_hung = operation.kind == Kind::kWrite && hangs(operation);
                          return Mishap{.gate = is_hung ? &gate : nullptr};
                        }});
    made->set_record_sink([&gate, &ended, opens](Index step, std::span<const rt::TaskRecord>) {
      if (!gate.is_open()) ended = step;
      if (step == opens) gate.open();
    });
    return made;
  }
};

TEST_F(HungDevice, HoldsUpNoStep) {
  config_.train.run_ahead = 1;
  const auto out = scratch_ / "run";
  testing::internal::CaptureStdout();
  EXPECT_EQ(train_behind(out, 5, std::chrono::milliseconds(50)), straight(kSteps));
  const std::string said = testing::internal::GetCapturedStdout();
  EXPECT_THAT(said,
              HasSubstr("step 3: no checkpoint, as 2 are under way, the older one of step 1"));
  EXPECT_THAT(said, HasSubstr((out / "checkpoints" / "step-00000001.tmp").string()));
  EXPECT_EQ(io::CheckpointStore(out).steps(), (std::vector<Index>{1, 2, 6}));
  EXPECT_EQ(saved(out, "2"), straight(2));
  EXPECT_EQ(saved(out, "best"), straight(kSteps)) << "the only one of a validation";
  expect_no_leftovers(out);
}

// A best one that was left out is the best no more, and one that is worse may take its place.
TEST_F(HungDevice, HasTheNextBestOneTakeThePlace) {
  config_.train.validate_every = 1;
  config_.optim.lr = 0.01;
  const auto out = scratch_ / "run";
  train_behind(out, 4, std::chrono::milliseconds(0));
  const std::vector<Index> steps = io::CheckpointStore(out).steps();
  EXPECT_GE(std::ssize(steps), 3);
  EXPECT_GT(steps[2], 3);
  EXPECT_EQ(
      saved(out, "best"),
      straight(*io::CheckpointStore::step_of_folder(io::CheckpointStore(out).resolve("best"))));
  expect_no_leftovers(out);
}

// The only words there would be: with so few checkpoints no other waits for this one.
TEST_F(HungDevice, IsToldOnceWhereAnUpdateWaits) {
  config_.train.checkpoint_every = 3;
  const auto out = scratch_ / "run";
  test::Gate gate;
  std::promise<void> are_files_made;
  std::once_flag once;
  const auto made = trainer(out, {[&](Index, const Operation& operation) {
                              if (operation.kind != Kind::kWrite || operation.offset == 0)
                                return Mishap{};
                              std::call_once(once, [&] { are_files_made.set_value(); });
                              return Mishap{.gate = &gate};
                            }});
  // Long enough for a busy machine to make the files: without them the checkpoint is given up.
  made->set_update_patience(std::chrono::seconds(3));
  made->start_fresh();
  testing::internal::CaptureStdout();
  std::thread opens([&] {
    are_files_made.get_future().wait_for(std::chrono::seconds(60));
    std::this_thread::sleep_for(std::chrono::seconds(4));
    gate.open();
  });
  made->run();
  opens.join();
  const std::string said = testing::internal::GetCapturedStdout();
  EXPECT_EQ(state_of(*made), straight(kSteps));
  const std::string words = "an update has waited 3 s for bytes of the checkpoint of step";
  const auto place = said.find(words);
  ASSERT_NE(place, said.npos) << said;
  EXPECT_EQ(said.find(words, place + 1), said.npos) << said;
  EXPECT_THAT(said.substr(place), HasSubstr("checkpoint of step 3, for "));
  EXPECT_THAT(said.substr(place), HasSubstr((out / "checkpoints/step-00000003.tmp").string()));
  EXPECT_EQ(io::CheckpointStore(out).steps(), (std::vector<Index>{3, 6}));
}

// Nothing of it can be on its way to the device: updates get their states back.
TEST_F(HungDevice, IsNotWaitedForWhileFilesAreMade) {
  config_.train.run_ahead = 1;
  const auto out = scratch_ / "run";
  test::Gate gate;
  Index ended = 0;
  const auto made = trainer_behind(
      out, gate, [](const Operation& operation) { return operation.offset == 0; }, 4, ended);
  made->set_checkpoint_patience(std::chrono::milliseconds(20));
  made->set_update_patience(std::chrono::milliseconds(20));
  made->start_fresh();
  testing::internal::CaptureStdout();
  // Where steps wait for it, they do for so long.
  std::jthread opens([&](const std::stop_token& is_over) {
    for (int i = 0; i < 500 && !is_over.stop_requested(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    gate.open();
  });
  made->run();
  opens.request_stop();
  const std::string said = testing::internal::GetCapturedStdout();
  EXPECT_EQ(ended, 4);
  EXPECT_EQ(state_of(*made), straight(kSteps));
  EXPECT_THAT(said, HasSubstr("it is given up, and training goes on"));
  EXPECT_THAT(said,
              HasSubstr(fmt::format(
                  "step 1: no checkpoint: {}: its files were not ready when an update had waited",
                  (out / "checkpoints" / "step-00000001.tmp").string())));
  const std::vector<Index> steps = io::CheckpointStore(out).steps();
  EXPECT_THAT(steps, testing::Not(testing::Contains(1)));
  EXPECT_THAT(steps, testing::Contains(kSteps));
  EXPECT_EQ(saved(out, "last"), straight(kSteps));
  expect_no_leftovers(out);
}

// Bytes that the system still reads may change then, as nothing becomes of them.
TEST_F(HungDevice, IsNotWaitedForWhereItTakesNoMoreBytes) {
  if (kHasThreadSanitizer && std::string(storage::make_backend()->name()) == "threads")
    GTEST_SKIP() << "the system reads bytes that change, here in a call that the sanitizer sees";
  config_.train.checkpoint_every = 3;
  config_.train.run_ahead = 1;
  const auto out = scratch_ / "run";
  test::Gate gate;
  Index ended = 0;
  const auto made = trainer_behind(
      out, gate, [](const Operation& operation) { return operation.offset > 0; }, 5, ended);
  made->set_update_patience(std::chrono::seconds(1));
  made->start_fresh();
  testing::internal::CaptureStdout();
  made->run();
  const std::string said = testing::internal::GetCapturedStdout();
  EXPECT_EQ(ended, 5) << said;
  EXPECT_EQ(state_of(*made), straight(kSteps));
  EXPECT_THAT(said, HasSubstr("an update has waited 4 s for bytes of the checkpoint of step 3, "));
  EXPECT_THAT(said, HasSubstr("it is given up, and training goes on"));
  EXPECT_THAT(said, HasSubstr(fmt::format("step 3: no checkpoint: {}: ",
                                          (out / "checkpoints/step-00000003.tmp").string())));
  EXPECT_EQ(io::CheckpointStore(out).steps(), std::vector<Index>{kSteps});
  EXPECT_EQ(saved(out, "last"), straight(kSteps));
  expect_no_leftovers(out);
}

// One that is slow is waited for, as far as patience goes.
TEST_F(HungDevice, IsWaitedForWithPatience) {
  const auto out = scratch_ / "run";
  test::CheckpointRun::train(out, [](Index, const Operation& operation) {
    return Mishap{.delay = std::chrono::milliseconds(operation.kind == Kind::kSync ? 20 : 0)};
  });
  EXPECT_EQ(std::ssize(io::CheckpointStore(out).steps()), kSteps);
}

// The folder vanishes: what cannot be created is as bad as what cannot be written.
TEST_F(LazyCheckpoint, WithoutAFolderIsGivenUp) {
  config_.train.stop_after = 2;
  const auto out = scratch_ / "run";
  const auto made = trainer(out);
  made->start_fresh();
  std::filesystem::create_directories(out);
  write_durably(out / "checkpoints", "in the way");
  const std::string message = test::message_of<Error>([&] { made->run(); });
  EXPECT_THAT(message, HasSubstr("step 2: the last checkpoint cannot be written: "));
  EXPECT_THAT(message, HasSubstr((out / "checkpoints").string()));
}

TEST_F(LazyCheckpoint, WithAParameterThatIsNotFiniteIsNone) {
  config_.train.checkpoint_every = 0;
  // A step with which the last update leaves the range of numbers; nothing after it would find it.
  config_.optim.rule = "sgd";
  config_.optim.clip = 0;
  config_.optim.warmup = 0;
  config_.optim.lr = 3e38;
  config_.optim.weight_decay = 1e6;
  config_.train.stop_after = 1;
  const auto out = scratch_ / "run";
  const auto made = trainer(out);
  made->start_fresh();
  EXPECT_THAT(test::message_of<Error>([&] { made->run(); }),
              HasSubstr("step 1: a parameter is not finite; first bad tensor: parameter "));
  EXPECT_EQ(io::CheckpointStore(out).steps(), std::vector<Index>{});
}

TEST_F(LazyCheckpoint, IsPartOfTheMetrics) {
  const auto out = scratch_ / "run";
  train(out);
  const std::string lines = read_text(out / "metrics.jsonl");
  EXPECT_THAT(lines,
              HasSubstr("\"checkpoint_step\":1,\"checkpoint_committed\":1,\"checkpoint_s\":"));
  EXPECT_THAT(lines, HasSubstr("\"ms_checkpoint_waited\":"));
}

TEST_F(LazyCheckpoint, ThatIsGivenUpIsNoneInTheMetrics) {
  config_.train.checkpoint_every = 3;
  const auto out = scratch_ / "run";
  train(out, [](Index number, const Operation&) { return Mishap{.error = number == 0 ? EIO : 0}; });
  EXPECT_THAT(read_text(out / "metrics.jsonl"),
              HasSubstr("\"checkpoint_step\":3,\"checkpoint_committed\":0,"));
}

}  // namespace
}  // namespace dos::train::lazy_checkpoint_test
