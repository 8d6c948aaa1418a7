// SPDX-License-Identifier: Apache-2.0
// Whole steps of runs whose states are on disks.
#include <gmock/gmock.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "message_of.hpp"
#include "planner/plan_report.hpp"
#include "planner/planner.hpp"
#include "planner/tier_uses.hpp"
#include "requests.hpp"
#include "sched/replay.hpp"

namespace dos::planner::disk_step_test {
namespace {

using testing::HasSubstr;
using testing::Not;

perfmodels::Tier disk(const std::string& name, double read, double write) {
  perfmodels::Tier tier;
  tier.name = name;
  tier.capacity.value = units::gigabytes(4000);
  tier.read.value = units::gigabytes_per_second(read);
  tier.write.value = units::gigabytes_per_second(write);
  tier.latency.value = units::microseconds(20);
  return tier;
}

Request on_disks(const std::string& machine, Index micro_batch, double host, bool clips = true) {
  Request request = test::request(machine, machine == "cpu-2core" ? "gpt2-124m" : "llama-3b", 1);
  request.machine.tiers = {disk("first", 6, 5), disk("second", 3, 4)};
  request.micro_batch = micro_batch;
  request.settings.disks = {{.folder = "first"}, {.folder = "second"}};
  request.settings.state_memory = units::gigabytes(host);
  request.settings.subgroup_params = request.machine.gpus.value > 0 ? 10'000'000 : 5'000'000;
  request.settings.activations = shape::kRecomputeAll;
  request.settings.clips = clips;
  return request;
}

/// What comes one after the other where nothing runs beside anything.
units::Seconds in_turn(const Forecast& forecast) {
  return forecast.phases.forward + forecast.phases.backward + forecast.plan.time;
}

/// In which each disk reads its states and writes them, by turns; the longest.
double disk_seconds(const Forecast& forecast) {
  const auto of = [&](const std::string& name, double read, double write) {
    const double gigabytes = states_on(name, forecast.problem, forecast.plan).value() / 1e9;
    return gigabytes / read + gigabytes / write;
  };
  return std::max(of("first", 6, 5), of("second", 3, 4)) * (1 - 1e-9);
}

// A GPU's links and kernels have latencies, and one that computes lets updates wait.
constexpr double kSlack = 1.05;

TEST(DiskStep, IsNoShorterThanWhatDisksAndDevicesDoAndNoLongerThanAllInTurn) {
  for (const std::string machine : {"cpu-2core", "rtx4090", "h100"})
    for (const Index micro_batch : {1, 4, 16})
      for (const double host : {0.0, 1.2})
        for (const bool clips : {true, false}) {
          SCOPED_TRACE(testing::Message()
                       << machine << " B" << micro_batch << " " << host << " GB, clips " << clips);
          const Request request = on_disks(machine, micro_batch, host, clips);
          const Forecast result = forecast(request);
          ASSERT_TRUE(result.updates_beside);
          EXPECT_GE(result.step, result.phases.forward + result.phases.backward);
          EXPECT_GE(result.step.value(), disk_seconds(result));
          EXPECT_LE(result.step, in_turn(result) * kSlack);
        }
}

TEST(DiskStep, IsShorterWhereNoUpdateWaitsForTheNorm) {
  const auto step = [](bool clips) { return forecast(on_disks("rtx4090", 16, 0, clips)).step; };
  // Disks have nothing to do in most of backward, two thirds of what the GPU computes.
  EXPECT_LT(step(false), step(true) * 0.85);
}

TEST(DiskStep, IsSaidToRunBesideForwardAndBackward) {
  const auto text = [](const Request& request) {
    const Forecast result = forecast(request);
    return report_text(request, result, sched::replay(result.problem, result.plan, true));
  };
  EXPECT_THAT(text(on_disks("cpu-2core", 4, 0)), HasSubstr(" beside them"));
  EXPECT_THAT(text(on_disks("cpu-2core", 4, 0)), Not(HasSubstr("optim.clip")));
  EXPECT_THAT(text(on_disks("cpu-2core", 4, 0, false)), HasSubstr(" --set optim.clip=0 "));
}

TEST(DiskStep, HasNothingToGoAheadOfWithoutClipping) {
  Request request = on_disks("rtx4090", 4, 1, false);
  request.settings.speculation = SpeculationChoice::kAuto;
  EXPECT_EQ(forecast(request).ahead.subgroups, 0);
  request.settings.speculation = SpeculationChoice::kOn;
  EXPECT_THAT(test::message_of<Error>([&] { forecast(request); }),
              HasSubstr("optim.clip = 0 no update waits for the norm: leave it out"));
}

}  // namespace
}  // namespace dos::planner::disk_step_test
