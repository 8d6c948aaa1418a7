// SPDX-License-Identifier: Apache-2.0
#include "calibration/results.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <fstream>

#include "base/error.hpp"
#include "calibration/calibration_report.hpp"
#include "scratch_directory.hpp"

namespace dos::calibration::results_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr double kGiga = 1e9;
const perfmodels::Calibration kHere{.host = {.name = "node7", .cores = 8, .nvidia_gpus = 1},
                                    .date = "2026-11-21",
                                    .starpu = "1.3.10"};

Result steady(const char* key, double value) {
  return measured(key, {.median = value, .spread = 0.02, .rounds = 9}, "how");
}

std::vector<Result> cpu_results() {
  return {counted("node.gpus", 0, "none"),
          counted("node.cpu_workers", 8, "workers"),
          counted("dram.capacity", 64'000'000'000, "memory"),
          steady("cpu.update_rate", 2 * kGiga),
          steady("cpu.worker_rate", 0.4 * kGiga),
          steady("dram.bandwidth", 60 * kGiga),
          steady("node.training_rate", 1e12),
          steady("node.training_rate_fp32", 5e11),
          steady("node.task_latency", 5e-6)};
}

std::vector<Result> gpu_results() {
  std::vector<Result> results = cpu_results();
  results.front() = counted("node.gpus", 1, "one");
  for (const Result& result :
       {counted("gpu.memory", 80'000'000'000, "memory"), steady("gpu.update_rate", 90 * kGiga),
        steady("link.h2d", 50 * kGiga), steady("link.d2h", 40 * kGiga),
        steady("link.both", 80 * kGiga), steady("link.h2d_cpu_busy", 30 * kGiga),
        steady("link.d2h_cpu_busy", 25 * kGiga), steady("link.both_cpu_busy", 50 * kGiga),
        steady("link.latency", 1e-5)})
    results.push_back(result);
  return results;
}

std::vector<Result> disk_results(const std::string& name = "nvme") {
  std::vector<Result> results = cpu_results();
  const std::string tier = "tier." + name + ".";
  const auto add = [&](const char* key, double value) {
    results.push_back(steady((tier + key).c_str(), value));
  };
  results.push_back(counted(tier + "capacity", 2'000'000'000'000, "free"));
  add("link.read", 6 * kGiga);
  add("link.read_cpu_busy", 5 * kGiga);
  add("link.write", 4 * kGiga);
  add("link.write_cpu_busy", 3 * kGiga);
  add("link.both", 7 * kGiga);
  add("link.both_cpu_busy", 6 * kGiga);
  add("link.latency", 2e-5);
  return results;
}

Result& at(std::vector<Result>& results, const std::string& key) {
  return *std::ranges::find(results, key, &Result::key);
}

perfmodels::Machine machine_of(const std::vector<Result>& results) {
  return assemble(results, kHere, "a test", std::nullopt);
}

TEST(Reconcile, LeavesWhatAgrees) {
  std::vector<Result> results = gpu_results();
  reconcile(results);
  for (const Result& result : results)
    EXPECT_THAT(result.how, AllOf(Not(HasSubstr("raised")), Not(HasSubstr("lowered"))));
}

TEST(Reconcile, WorkersReachTogetherWhatTheyReachAlone) {
  for (const auto& [alone, expected] : {std::pair{3.0, 2.0}, std::pair{0.1, 0.25}}) {
    std::vector<Result> results = cpu_results();
    at(results, "cpu.worker_rate").value = alone * kGiga;
    EXPECT_THROW(machine_of(results), Error);
    reconcile(results);
    EXPECT_DOUBLE_EQ(at(results, "cpu.worker_rate").value, expected * kGiga);
    EXPECT_NO_THROW(machine_of(results));
  }
}

TEST(Reconcile, DramCarriesWhatTheUpdateMoved) {
  std::vector<Result> results = cpu_results();
  at(results, "dram.bandwidth").value = 50 * kGiga;
  EXPECT_THROW(machine_of(results), Error);
  reconcile(results);
  EXPECT_DOUBLE_EQ(at(results, "dram.bandwidth").value, 56 * kGiga);
  EXPECT_EQ(at(results, "dram.bandwidth").how, "how; raised to what the update moved");
  EXPECT_NO_THROW(machine_of(results));
}

TEST(Reconcile, LinksStayWithinTheirDirections) {
  for (const auto& [both, expected] : {std::pair{45.0, 50.0}, {95.0, 90.0}, {70.0, 70.0}}) {
    std::vector<Result> results = gpu_results();
    at(results, "link.both").value = both * kGiga;
    at(results, "link.h2d_cpu_busy").value = 51 * kGiga;
    at(results, "link.d2h_cpu_busy").value = 41 * kGiga;
    at(results, "link.both_cpu_busy").value = 96 * kGiga;
    reconcile(results);
    EXPECT_DOUBLE_EQ(at(results, "link.both").value, expected * kGiga);
    EXPECT_DOUBLE_EQ(at(results, "link.h2d_cpu_busy").value, 50 * kGiga);
    EXPECT_DOUBLE_EQ(at(results, "link.d2h_cpu_busy").value, 40 * kGiga);
    EXPECT_DOUBLE_EQ(at(results, "link.both_cpu_busy").value, expected * kGiga);
    EXPECT_NO_THROW(machine_of(results));
  }
}

TEST(Reconcile, DisksThatMoveLessAtOnceTakeTurns) {
  for (const auto& [both, expected] : {std::pair{11.0, 10.0}, {7.0, 7.0}, {5.9, 0.0}}) {
    std::vector<Result> results = disk_results();
    at(results, "tier.nvme.link.both").value = both * kGiga;
    at(results, "tier.nvme.link.both_cpu_busy").value = 12 * kGiga;
    at(results, "tier.nvme.link.read_cpu_busy").value = 6.1 * kGiga;
    EXPECT_THROW(machine_of(results), Error);
    reconcile(results);
    const perfmodels::Tier tier = machine_of(results).tiers.at(0);
    EXPECT_DOUBLE_EQ(tier.read_cpu_busy->value.value(), 6 * kGiga);
    EXPECT_EQ(tier.both.has_value(), expected > 0);
    EXPECT_EQ(tier.both_cpu_busy.has_value(), expected > 0);
    if (tier.both) {
      EXPECT_DOUBLE_EQ(tier.both->value.value(), expected * kGiga);
    }
  }
}

TEST(Objection, NamesNoisyRatesOfDisks) {
  std::vector<Result> results = disk_results();
  at(results, "tier.nvme.link.write").spread = 0.34;
  EXPECT_THAT(objection(results, {}, {}),
              HasSubstr("tier.nvme.link.write = 4 GB/s, spread 34.0 %"));
}

TEST(Assemble, TiersThatAreNotMeasuredAgainStay) {
  perfmodels::Machine before = machine_of(disk_results());
  before.tiers.push_back(before.tiers.front());
  before.tiers.back().name = "pfs";
  before.tiers.front().endurance = {units::Bytes(6e14), "data sheet"};
  std::vector<Result> results = disk_results();
  at(results, "tier.nvme.link.read").value = 5.5 * kGiga;
  const perfmodels::Machine machine = assemble(results, kHere, "a test", before);
  ASSERT_EQ(machine.tiers.size(), 2U);
  EXPECT_EQ(machine.tiers[0].name, "nvme");
  EXPECT_EQ(machine.tiers[0].endurance->source, "data sheet");
  EXPECT_EQ(machine.tiers[1].name, "pfs");
  const std::vector<Change> found = changes(before, machine);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].key, "tier.nvme.link.read");
  EXPECT_THAT(changes_text(found, "a day"), HasSubstr("6 GB/s -> 5.5 GB/s"));
  EXPECT_EQ(assemble(cpu_results(), kHere, "a test", before).tiers.size(), 2U);
}

TEST(Objection, NamesNoisyRatesReasonsAndRemedy) {
  std::vector<Result> results = cpu_results();
  const Effort effort;
  EXPECT_EQ(objection(results, effort, {}), "");
  at(results, "cpu.update_rate").spread = 0.1;
  EXPECT_EQ(objection(results, effort, {}), "");
  at(results, "cpu.update_rate").spread = 0.34;
  at(results, "dram.bandwidth").spread = 0.12;
  EXPECT_THAT(objection(results, effort, {.load = 3.14, .cores = 8, .governor = "powersave"}),
              AllOf(HasSubstr("cpu.update_rate = 2 Gparam/s, spread 34.0 %"),
                    HasSubstr("dram.bandwidth = 60 GB/s, spread 12.0 %"),
                    HasSubstr("at most 10 % is allowed (3 attempts of 9 rounds)"),
                    HasSubstr("load average 3.14 on 8 cores"), HasSubstr("governor 'powersave'"),
                    HasSubstr("--allow-noise"), HasSubstr("nothing was written"),
                    Not(HasSubstr("worker_rate"))));
  EXPECT_THAT(objection(results, effort, {.load = 0, .cores = 8, .governor = "performance"}),
              AllOf(HasSubstr("neighbours"), Not(HasSubstr("governor"))));
}

TEST(Objection, SteadyReadingsOfABusyMachineAreWrongToo) {
  EXPECT_EQ(objection(cpu_results(), {}, {.taken = kMostTaken}), "");
  EXPECT_THAT(objection(cpu_results(), {}, {.load = 2, .cores = 8, .taken = 0.45}),
              AllOf(HasSubstr("others had 45 % of the processors' time"), HasSubstr("load average"),
                    Not(HasSubstr("spread"))));
}

TEST(TakenByOthers, IsWhatWasNeitherIdleNorOwn) {
  const platform::ProcessorTime before{.busy = 100, .idle = 50, .stolen = 1};
  // Of 20 seconds of all processors 12 were busy, 9 of them ours, and 2 stolen.
  const platform::ProcessorTime after{.busy = 112, .idle = 56, .stolen = 3};
  EXPECT_DOUBLE_EQ(taken_by_others(before, after, 9), 5.0 / 20);
  // Clocks of different resolution: ours may be ahead.
  EXPECT_DOUBLE_EQ(taken_by_others(before, after, 15), 0);
  EXPECT_DOUBLE_EQ(taken_by_others(before, before, 0), 0);
}

TEST(Assemble, FilesAreReadBackWithSourceAndSpread) {
  const test::ScratchDirectory folder;
  const perfmodels::Machine machine = machine_of(gpu_results());
  std::ofstream(folder / "node7.toml") << perfmodels::machine_text(machine);
  const perfmodels::Machine back = perfmodels::find_machine("this", folder.path(), kHere.host);
  EXPECT_EQ(perfmodels::machine_text(back), perfmodels::machine_text(machine));
  EXPECT_EQ(back.h2d.source, "measured by calibrate, median of 9, spread 2.0 %, 2026-11-21: how");
  EXPECT_DOUBLE_EQ(back.h2d.spread.value(), 0.02);
  EXPECT_EQ(back.gpus.source, "read by calibrate, 2026-11-21: one");
  EXPECT_FALSE(back.gpus.spread.has_value());
  EXPECT_TRUE(changes(machine, back).empty());
}

TEST(Assemble, KeepsWhatCannotBeMeasured) {
  perfmodels::Machine before = machine_of(gpu_results());
  before.gather = {{units::gigabytes_per_second(300)}, "data sheet"};
  EXPECT_EQ(assemble(gpu_results(), kHere, "d", before).gather->source, "data sheet");
  EXPECT_FALSE(assemble(cpu_results(), kHere, "d", before).gather.has_value());
  before.network = {.bandwidth = {units::gigabytes_per_second(25), "data sheet"},
                    .latency = {units::microseconds(2), "data sheet"}};
  EXPECT_EQ(assemble(cpu_results(), kHere, "d", before).network->latency.value,
            units::microseconds(2));
}

TEST(Assemble, RatesOfOneDeviceOfSeveralAreNotTheMachines) {
  std::vector<Result> results = gpu_results();
  Result slow = steady("gpu.update_rate", kGiga);
  slow.device = "CUDA 1";
  results.push_back(slow);
  EXPECT_DOUBLE_EQ(machine_of(results).gpu_update_rate.value.value(), 90 * kGiga);
  EXPECT_THAT(table(results), HasSubstr("how: CUDA 1"));
}

TEST(Assemble, AMissingRateIsRefused) {
  std::vector<Result> results = cpu_results();
  std::erase_if(results, [](const Result& result) { return result.key == "cpu.update_rate"; });
  EXPECT_THROW(machine_of(results), Error);
}

TEST(Changes, AreWhatNoiseDoesNotExplain) {
  const perfmodels::Machine before = machine_of(cpu_results());
  std::vector<Result> results = cpu_results();
  at(results, "cpu.update_rate").value *= 1.039;  // both spreads together: 4 %
  EXPECT_TRUE(changes(before, machine_of(results)).empty());
  at(results, "cpu.update_rate").value = 2 * kGiga * 0.95;
  at(results, "node.cpu_workers").value = 4;
  const std::vector<Change> found = changes(before, machine_of(results));
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].key, "node.cpu_workers");
  EXPECT_EQ(found[1].key, "cpu.update_rate");
  EXPECT_DOUBLE_EQ(found[1].noise, 0.04);
  EXPECT_THAT(changes_text(found, "2026-01-02"),
              AllOf(HasSubstr("since the calibration of 2026-01-02"),
                    HasSubstr("2 Gparam/s -> 1.9 Gparam/s (-5.0 %, noise 4.0 %)"),
                    HasSubstr("node.cpu_workers    8 -> 4")));
  EXPECT_THAT(changes_text({}, "2026-01-02"), HasSubstr("nothing differs"));
}

TEST(Changes, ADeviceMayComeAndGo) {
  const perfmodels::Machine without = machine_of(cpu_results());
  const perfmodels::Machine with = machine_of(gpu_results());
  const std::vector<Change> came = changes(without, with);
  const auto h2d = std::ranges::find(came, "link.h2d", &Change::key);
  ASSERT_NE(h2d, came.end());
  EXPECT_FALSE(h2d->before.has_value());
  EXPECT_THAT(changes_text(came, "d"), HasSubstr("none -> 50 GB/s\n"));
  EXPECT_THAT(changes_text(changes(with, without), "d"), HasSubstr("50 GB/s -> none\n"));
}

}  // namespace
}  // namespace dos::calibration::results_test
