// SPDX-License-Identifier: Apache-2.0
#include "planner/checkpoint_forecast.hpp"

#include <gmock/gmock.h>

#include <limits>

#include "base/error.hpp"
#include "message_of.hpp"
#include "requests.hpp"

namespace dos::planner::checkpoint_forecast_test {
namespace {

using test::request;

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

CheckpointForecast at(Request request, double node_gb, double total_gb = kNoLimit) {
  request.storage = {.node = units::gigabytes_per_second(node_gb),
                     .total = units::gigabytes_per_second(total_gb)};
  return forecast_checkpoints(request, forecast(request));
}

TEST(Checkpoints, HoldTwelveBytesAParameterOfAdamW) {
  const Request run = request("h100-4x", "llama-7b", 8);
  const CheckpointForecast result = at(run, 2);
  const auto params = static_cast<double>(run.model.params());
  // Ranks own whole subgroups: the largest part is a little more than an eighth.
  EXPECT_NEAR(result.own.value(), 12 * params / 8, 0.05 * 12 * params / 8);
  EXPECT_NEAR(result.all.value(), 8 * result.own.value(), 1);
}

TEST(Checkpoints, OfWhatIsFrozenHoldTheParametersAlone) {
  Request run = request("h100", "llama-7b", 1);
  run.settings.trained.frozen = shape::parse_patterns("blocks.[0-9].*");
  const Forecast planned = forecast(run);
  const CheckpointForecast result = at(run, 2);
  const auto trained = static_cast<double>(planned.trained_params);
  const auto frozen = static_cast<double>(run.model.params()) - trained;
  ASSERT_GT(frozen, 0);
  EXPECT_NEAR(result.all.value(), 12 * trained + 2 * frozen, 1);
  EXPECT_NEAR(result.own.value(), 12 * trained, 1) << "what is frozen is written once";
}

// Four ranks share the node's rate, and all ranks that of the file system.
TEST(Checkpoints, AreWrittenAtTheRatesPartOfARank) {
  const Request run = request("h100-4x", "llama-7b", 8);
  const Forecast planned = forecast(run);
  const auto seconds = [&](double node, double total) {
    const CheckpointForecast result = at(run, node, total);
    // Writing begins with the first update that ends, and the last ends with the phase at most.
    const double at_least = result.own.value() / std::min(node / 4, total / 8) / 1e9;
    EXPECT_GE(result.write.value(), at_least * (1 - 1e-9));
    EXPECT_LE(result.write.value(), at_least + planned.plan.time.value());
    return result.write.value();
  };
  EXPECT_LT(seconds(4, kNoLimit), seconds(2, kNoLimit));
  EXPECT_DOUBLE_EQ(seconds(4, 8), seconds(4, kNoLimit));
  EXPECT_LT(seconds(4, 8), seconds(4, 2));
}

// The last subgroup waits for all bytes, less what forward and backward leave time for.
TEST(Checkpoints, WaitForWhatForwardAndBackwardLeave) {
  const Request run = request("h100-4x", "llama-7b", 4);
  const Forecast planned = forecast(run);
  const double slow = 0.1;
  const CheckpointForecast result = at(run, slow);
  const double all = result.own.value() / (slow / 4) / 1e9;
  EXPECT_GE(result.wait.value(), all - (planned.step + planned.plan.time).value());
  EXPECT_LE(result.wait.value(), all - (planned.step - planned.plan.time).value());
  EXPECT_GT(result.interval.steps, 1);
  // Storage as fast as memory keeps nobody waiting, if states need not leave a GPU first.
  const CheckpointForecast fast = at(run, 1e6);
  EXPECT_LE(fast.wait.value(), 0);
  // Then only what it takes from the workers keeps it from coming every step.
  const auto workers = static_cast<double>(planned.problem.rates.cpu_workers);
  EXPECT_NEAR(fast.slowed.value() * workers, fast.own.value() * (0.28 / 12 + 0.006) * 1e-9, 1e-9);
  EXPECT_EQ(fast.interval.limit, perfmodels::IntervalLimit::kSlowed);
}

// Names in a checkpoint's folder are of files of one file system.
TEST(Checkpoints, TakeStatesOfOneDiskAndCopyOthers) {
  Request run = request("h100-4x-nvme", "llama-20b", 4);
  run.settings.disks = {{.folder = "nvme"}};
  run.settings.state_memory = units::Bytes(0);
  const Forecast one = forecast(run);
  const CheckpointForecast taking = at(run, 4);
  EXPECT_GT(taking.taken.value(), 0);
  EXPECT_NEAR(checkpoint_bytes(one.problem, one.plan).value(), (taking.own - taking.taken).value(),
              1);
  run.machine.tiers.push_back(run.machine.tiers.front());
  run.machine.tiers.back().name = "other";
  run.settings.disks.push_back({.folder = "other"});
  const CheckpointForecast two = at(run, 4);
  EXPECT_NEAR(two.taken / taking.taken, 0.5, 0.02);
  EXPECT_NEAR(two.own.value(), taking.own.value(), 1);
}

// With memory for all of it an update waits for copies, not for the disk.
TEST(Checkpoints, AreCopiedAsFarAsMemoryGoes) {
  Request run = request("h100-4x", "llama-7b", 4);
  const double before = at(run, 1).wait.value();
  ASSERT_GT(before, 10);
  const double all = at(run, 1).own.value();
  const double rate = 1e9 / 4;
  for (const double part : {0.1, 0.5, 1.0}) {
    run.settings.checkpoint_memory = units::Bytes(part * all);
    const double wait = at(run, 1).wait.value();
    if (part < 1) {
      EXPECT_NEAR(before - wait, part * all / rate, 1e-6 * before) << part;
    }
    EXPECT_LT(wait, before);
  }
  const Forecast planned = forecast(run);
  const double copied =
      all / (planned.problem.rates.cpu_worker * planned.problem.cost.cpu_traffic).value() * 2;
  EXPECT_LE(at(run, 1).wait.value(), copied);
}

TEST(Checkpoints, NeedPositiveRates) {
  Request run = request("h100", "gpt2-124m", 1);
  run.storage = {.node = units::BytesPerSecond(0), .total = units::BytesPerSecond(1)};
  const Forecast planned = forecast(run);
  EXPECT_THAT(test::message_of<Error>([&] { forecast_checkpoints(run, planned); }),
              testing::HasSubstr("GB/s of a node 0: must be positive"));
}

}  // namespace
}  // namespace dos::planner::checkpoint_forecast_test
