// SPDX-License-Identifier: Apache-2.0
#include "planner/timeline.hpp"

#include <gmock/gmock.h>

#include "requests.hpp"

namespace dos::planner::timeline_test {
namespace {

using testing::HasSubstr;

TEST(Timeline, DrawsEveryResource) {
  const Forecast result = forecast(test::request("rtx4090", "llama-3b", 1));
  const auto replay = sched::replay(result.problem, result.plan, true);
  const std::string text = timeline_text(result.problem, replay);
  for (const char* lane : {"cpu", "gpu 0 h2d", "gpu 0 d2h", "gpu 0 update", "gpu 0 states"})
    EXPECT_THAT(text, HasSubstr(lane));
  const std::string svg = timeline_svg(result.problem, result.plan, replay, "a & <title");
  EXPECT_THAT(svg, testing::StartsWith("<svg "));
  EXPECT_THAT(svg, testing::EndsWith("</svg>\n"));
  EXPECT_THAT(svg, HasSubstr(">a &amp; &lt;title<"));
  for (const char* work : {"cpu update", "state in", "state out", "weight in", "bound "})
    EXPECT_THAT(svg, HasSubstr(work));
}

TEST(Timeline, DrawsTheLinksOfFurtherTiers) {
  Forecast result = forecast(test::request("cpu-2core", "llama-1.3b", 1));
  perfmodels::TierRates disks{.name = "nvme", .capacity = units::gigabytes(1000), .link = {}};
  disks.link.in = disks.link.out = units::gigabytes_per_second(2);
  disks.link.in_cpu_busy = disks.link.out_cpu_busy = disks.link.in;
  disks.link.both = disks.link.both_cpu_busy = disks.link.in * 2.0;
  result.problem.rates.tiers = {disks};
  for (sched::Assignment& each : result.plan.assignments) each.home = result.problem.gpus();
  const auto replay = sched::replay(result.problem, result.plan, true);
  const std::string text = timeline_text(result.problem, replay);
  const std::string svg = timeline_svg(result.problem, result.plan, replay, "t");
  for (const char* lane : {"nvme read", "nvme write"}) {
    EXPECT_THAT(text, HasSubstr(lane));
    EXPECT_THAT(svg, HasSubstr(lane));
  }
}

TEST(Timeline, WithoutAGpuHasNoGpu) {
  const Forecast result = forecast(test::request("cpu-2core", "llama-1.3b", 1));
  const auto replay = sched::replay(result.problem, result.plan, true);
  EXPECT_THAT(timeline_text(result.problem, replay), testing::Not(HasSubstr("gpu")));
  EXPECT_THAT(timeline_svg(result.problem, result.plan, replay, "t"),
              testing::Not(HasSubstr("gpu")));
}

/// Two subgroups one after the other: the first half of the line is full, so is the second.
TEST(Timeline, ColumnsShowHowBusyAResourceIs) {
  const Forecast result = forecast(test::request("cpu-2core", "llama-1.3b", 1));
  sched::Replay replay;
  replay.makespan = units::Seconds(2);
  replay.activities = {{sched::Work::kCpuUpdate, 0, -1, 0, units::Seconds(0), units::Seconds(1)}};
  const std::string text = timeline_text(result.problem, replay);
  std::string expected;
  for (int i = 0; i < 32; ++i) expected += "█";
  EXPECT_THAT(text, HasSubstr("|" + expected + std::string(32, ' ') + "|"));
}

}  // namespace
}  // namespace dos::planner::timeline_test
