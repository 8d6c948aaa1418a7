// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "storage/faulty_backend.hpp"
#include "train/checkpoint_states.hpp"
#include "train/tiny_trainer.hpp"

namespace dos::test {

/// Runs of a tiny model that save every step, on storage that meets with mishaps.
class CheckpointRun : public testing::Test {
 public:
  using State = std::vector<std::vector<float>>;
  using Plan = FaultyBackend::Plan;
  static constexpr Index kSteps = 6;

 protected:
  CheckpointRun() {
    config_.train.steps = kSteps;
    config_.train.checkpoint_every = 1;
    config_.train.keep = kSteps;
    // Steps take long enough to go on while others are written.
    config_.train.accumulate = 2;
  }

  /// `plans`: of the storage that the run writes checkpoints with, and of that which it copies them
  /// with; operations_ counts those of the last one.
  [[nodiscard]] std::unique_ptr<train::Trainer> trainer(const std::filesystem::path& out,
                                                        const std::vector<Plan>& plans = {}) {
    const auto made = std::make_shared<std::size_t>(0);
    const auto storage = [this, plans, made]() -> std::unique_ptr<storage::Backend> {
      const std::size_t place = (*made)++;
      if (place >= plans.size() || !plans[place]) return storage::make_backend();
      return std::make_unique<FaultyBackend>(
          storage::make_backend(),
          [this, plan = plans[place]](Index number, const storage::Operation& operation) {
            operations_ = number + 1;
            return plan(number, operation);
          });
    };
    return make_trainer(session_, config_, out, {}, nullptr, rt::kHostNode, storage);
  }

  State train(const std::filesystem::path& out, const Plan& plan = {}) {
    return train_on(out, {plan});
  }
  State train_on(const std::filesystem::path& out, const std::vector<Plan>& plans) {
    const auto made = trainer(out, plans);
    made->start_fresh();
    made->run();
    return state_of(*made);
  }

  /// What a checkpoint of the run in `out` holds.
  State saved(const std::filesystem::path& out, const std::string& selector) {
    const auto other = trainer(scratch_ / "reader");
    other->resume(train::CheckpointReader(out, selector));
    return state_of(*other);
  }

  /// States after each step, of runs that write a checkpoint at their end only.
  State straight(Index steps) {
    config::TrainConfig config = config_;
    config.train.checkpoint_every = 0;
    config.train.checkpoint_local.clear();
    config.train.stop_after = steps;
    const auto made = make_trainer(session_, config, scratch_ / "straight");
    made->start_fresh();
    made->run();
    return state_of(*made);
  }

  /// straight() of each step.
  std::vector<State> straight_steps() {
    std::vector<State> states;
    for (Index step = 1; step <= kSteps; ++step) states.push_back(straight(step));
    return states;
  }

  static void expect_no_leftovers(const std::filesystem::path& out) {
    for (const auto& entry : std::filesystem::directory_iterator(out / "checkpoints"))
      EXPECT_NE(entry.path().extension(), ".tmp") << entry.path();
  }

  ScratchDirectory scratch_;
  config::TrainConfig config_ = tiny_config(write_tiny_dataset(scratch_));
  rt::Session session_{{.scheduler = "", .cpu_workers = 2}};
  Index operations_ = 0;
};

}  // namespace dos::test
