// SPDX-License-Identifier: Apache-2.0
// Which tiers the disks of a run are, and by which rates activations go there.
#include "planner/run_disks.hpp"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "planner/plan_report.hpp"
#include "planner/tier_uses.hpp"
#include "requests.hpp"

namespace dos::planner::run_disks_test {
namespace {

using testing::HasSubstr;

perfmodels::Tier tier(const std::string& name, double write, const std::string& folder = "") {
  perfmodels::Tier tier;
  tier.name = name;
  tier.capacity.value = units::gigabytes(4000);
  tier.write.value = units::gigabytes_per_second(write);
  tier.read.value = units::gigabytes_per_second(2 * write);
  tier.latency.value = units::microseconds(20);
  if (!folder.empty()) tier.folders = {folder};
  return tier;
}

std::vector<PlannedDisk> named(const std::vector<std::string>& folders) {
  std::vector<PlannedDisk> disks;
  for (const std::string& folder : folders) disks.push_back({.folder = folder});
  return disks;
}

/// What is written, GB/s, with these disks; below 0: not all are there.
double rate(std::vector<perfmodels::Tier> tiers, const std::vector<std::string>& states,
            const std::vector<std::string>& activations) {
  perfmodels::Machine machine = perfmodels::find_machine("h100", test::machine_folder());
  machine.tiers = std::move(tiers);
  PlanSettings settings;
  settings.disks = named(states);
  settings.activation_disks = named(activations);
  const bool has_all = take_disks(settings, 1, machine);
  const DiskRates rates = activation_disk_rates(machine, {}).value();
  EXPECT_NEAR(rates.read / rates.write, 2, 1e-9);
  return rates.write.value() / 1e9 * (has_all ? 1 : -1);
}

TEST(RunDisks, GiveActivationsTheRatesOfTheirOwn) {
  const std::vector<perfmodels::Tier> tiers{tier("slow", 1, "/slow"), tier("fast", 8),
                                            tier("middle", 3, "/middle/run")};
  EXPECT_NEAR(rate(tiers, {}, {}), 8, 1e-9) << "nothing is named: the fastest";
  EXPECT_NEAR(rate(tiers, {}, {"/slow/of/me"}), 1, 1e-9) << "by its folder";
  EXPECT_NEAR(rate(tiers, {}, {"/slower"}), 1, 1e-9) << "the next one, no folder of /slow";
  EXPECT_NEAR(rate(tiers, {"fast"}, {}), 8, 1e-9) << "those of states";
  EXPECT_NEAR(rate(tiers, {"fast"}, {"/middle/run/a"}), 3, 1e-9);
  // Of folders each has as much, and the last to end counts.
  EXPECT_NEAR(rate(tiers, {}, {"/slow", "fast"}), 2, 1e-9);
  EXPECT_NEAR(rate(tiers, {}, {"/middle/run/a", "/middle/run/b", "/slow"}), 3, 1e-9)
      << "two thirds at 3 GB/s take as long as 4.5 GB/s would, a third at 1 GB/s as 3";
  EXPECT_NEAR(rate({tier("root", 1, "/"), tier("mounted", 6, "/nvme0")}, {"/me"}, {"/nvme0/me"}), 6,
              1e-9)
      << "the innermost";
  EXPECT_NEAR(rate({tier("only", 5)}, {"/states"}, {"/activations"}), -5, 1e-9);
}

TEST(RunDisks, TakeTurnsWhereOneDoes) {
  perfmodels::Machine machine = perfmodels::find_machine("h100", test::machine_folder());
  machine.tiers = {tier("a", 4), tier("b", 8)};
  for (perfmodels::Tier& each : machine.tiers) {
    each.both = {units::gigabytes_per_second(10), "test"};
    each.activation_folders = 1;
  }
  EXPECT_NEAR(activation_disk_rates(machine, {.ranks_per_node = 4})->both.value().value(), 5e9, 1);
  machine.tiers.front().both.reset();
  EXPECT_FALSE(activation_disk_rates(machine, {})->both.has_value());
}

// Another disk than the states' keeps activations alone.
TEST(RunDisks, OfActivationsAloneHaveNoStates) {
  Request request = test::request("rtx4090", "llama-7b", 1);
  request.machine.dram_capacity.value = units::gigabytes(48);
  request.machine.tiers = {tier("nvme", 5), tier("other", 50)};
  request.settings.disks = named({"nvme"});
  request.settings.activation_disks = named({"other"});
  set_activations(request.settings, "disk");
  const Forecast result = forecast(request);
  const std::vector<TierUse> uses = uses_of_tiers(result);
  ASSERT_EQ(uses.size(), 2U);
  EXPECT_GT(uses[0].states.value(), 0);
  EXPECT_EQ(uses[0].read, uses[0].states);
  EXPECT_EQ(uses[1].states.value(), 0);
  EXPECT_EQ(uses[1].written, result.activations_on_disk);
  const std::string text = report_text(request, result, sched::replay(result.problem, result.plan));
  EXPECT_THAT(text,
              HasSubstr("  disk: other; a device writes 50.00 GB/s there and reads 100.00\n"));
  EXPECT_THAT(text, HasSubstr(" --set sched.disks=nvme --set train.activation_disks=other"));
  EXPECT_THAT(report_json(request, result), HasSubstr("\"disks\": [\n"));
}

}  // namespace
}  // namespace dos::planner::run_disks_test
