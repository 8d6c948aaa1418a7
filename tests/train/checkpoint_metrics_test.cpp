// SPDX-License-Identifier: Apache-2.0
// What metrics.jsonl says of checkpoints that had to wait for room, or had none.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <map>
#include <string>

#include "train/checkpoint_run.hpp"

namespace dos::train::checkpoint_metrics_test {
namespace {

using storage::Kind;
using storage::Operation;
using test::Mishap;

/// Lines that tell of a checkpoint, by its step.
std::map<Index, nlohmann::json> told(const std::filesystem::path& out) {
  std::map<Index, nlohmann::json> told;
  std::ifstream lines(out / "metrics.jsonl");
  for (std::string text; std::getline(lines, text);) {
    const nlohmann::json line = nlohmann::json::parse(text);
    if (line.contains("checkpoint_step")) told[line.at("checkpoint_step").get<Index>()] = line;
  }
  return told;
}

class CheckpointMetrics : public test::CheckpointRun {};

TEST_F(CheckpointMetrics, TellOfOneThatWasLeftOut) {
  config_.train.run_ahead = 1;
  test::Gate gate;
  const auto made =
      trainer(scratch_ / "run", {[&](Index, const Operation& operation) {
                return Mishap{.gate = operation.kind == Kind::kSync ? &gate : nullptr};
              }});
  made->set_checkpoint_patience(std::chrono::milliseconds(50));
  made->set_record_sink([&](Index ended, std::span<const rt::TaskRecord>) {
    if (ended == 5) gate.open();
  });
  made->start_fresh();
  made->run();
  const std::map<Index, nlohmann::json> lines = told(scratch_ / "run");
  for (const Index step : {3, 4}) {
    ASSERT_TRUE(lines.contains(step)) << step;
    EXPECT_EQ(lines.at(step).at("checkpoint_committed"), 0);
    EXPECT_EQ(lines.at(step).at("mb_checkpoint"), 0);
  }
}

TEST_F(CheckpointMetrics, TellHowLongOneWaitedForRoom) {
  config_.train.run_ahead = 1;
  const auto out = scratch_ / "run";
  train(out, [](Index, const Operation& operation) {
    return Mishap{.delay = std::chrono::milliseconds(operation.kind == Kind::kSync ? 150 : 0)};
  });
  double most = 0;
  for (const auto& [step, line] : told(out)) {
    EXPECT_EQ(line.at("checkpoint_committed"), 1) << step;
    most = std::max(most, line.at("ms_checkpoint_room").get<double>());
  }
  EXPECT_GT(most, 50);
}

}  // namespace
}  // namespace dos::train::checkpoint_metrics_test
