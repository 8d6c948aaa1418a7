// SPDX-License-Identifier: Apache-2.0
// Plans on machines whose host memory does not hold the states: homes, bytes, wear of disks.
#include "planner/tier_uses.hpp"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "planner/checkpoint_forecast.hpp"
#include "planner/plan_report.hpp"
#include "requests.hpp"

namespace dos::planner::tier_uses_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

perfmodels::Tier disk(const char* name, double read, double write) {
  perfmodels::Tier tier;
  tier.name = name;
  tier.capacity = {units::gigabytes(4000), "test"};
  tier.read = {units::gigabytes_per_second(read), "test"};
  tier.write = {units::gigabytes_per_second(write), "test"};
  tier.latency = {units::microseconds(20), "test"};
  return tier;
}

/// 71 GB of states where host memory has 48 GB for everything.
Request small_node(std::vector<perfmodels::Tier> tiers) {
  Request request = test::request("rtx4090", "llama-7b", 1);
  request.machine.dram_capacity.value = units::gigabytes(48);
  request.machine.tiers = std::move(tiers);
  return request;
}

double states_of(const Forecast& forecast) {
  return (forecast.problem.total() * forecast.problem.cost.state).value();
}

TEST(Homes, AreHostMemoryWhereThatHoldsAll) {
  Request request = test::request("rtx4090", "llama-7b", 1);
  request.machine.dram_capacity.value = units::gigabytes(512);
  request.machine.tiers = {disk("nvme", 7, 5)};
  const Forecast result = forecast(request);
  const TierUse use = uses_of_tiers(result).front();
  EXPECT_EQ(use.states.value(), 0);
  EXPECT_EQ(use.written.value(), 0);
}

TEST(Homes, OfWhatHostMemoryDoesNotHoldAreDisks) {
  Request request = small_node({disk("nvme", 7, 5)});
  EXPECT_FALSE(forecast(small_node({})).fits());
  const Forecast result = forecast(request);
  EXPECT_TRUE(result.fits());
  double sum = 0;
  for (const HomePart& part : parts_of(result.problem, result.plan)) {
    sum += part.states.value();
    EXPECT_GT(part.states.value(), 0) << part.home;
  }
  EXPECT_NEAR(sum, states_of(result), 1);
  const TierUse use = uses_of_tiers(result).front();
  EXPECT_GT(use.states.value(), states_of(result) - 48e9);
  EXPECT_EQ(use.read, use.states);
  EXPECT_EQ(use.written, use.states);
  EXPECT_NEAR(use.a_day.value(), use.written.value() * 86400 / result.step.value(), 1);
  EXPECT_FALSE(use.days.has_value());
  EXPECT_GE(result.plan.bound.time / result.plan.time, 0.9);
}

// As a training does, which reserves files before its first step.
TEST(Homes, OnADiskNeedRoomForTheirFiles) {
  Request request = small_node({disk("nvme", 7, 5)});
  const TierUse use = uses_of_tiers(forecast(request)).front();
  ASSERT_GT(use.files.value(), use.states.value());
  units::Bytes& capacity = request.machine.tiers.front().capacity.value;
  capacity = use.files;
  const Forecast with = forecast(request);
  EXPECT_TRUE(with.fits());
  // So that none is proposed that would not fit.
  EXPECT_NEAR(room_for_activations(with.machine, with).value(), 0, 1);
  capacity = (use.files + use.states) / 2;
  const Forecast without = forecast(request);
  EXPECT_FALSE(without.fits());
  EXPECT_EQ(without.limit, "nvme");
  EXPECT_NEAR(without.disk_lacks.value(), (use.files - capacity).value(), 1);
}

// As a training has it (ADR 62): in every plan, and only where the host has no room for all.
TEST(Homes, OfWhatHostMemoryDoesNotHoldAreGpusFirst) {
  Request request = test::request("h100", "llama-7b", 1);
  request.machine.dram_capacity.value = units::gigabytes(512);
  request.machine.tiers = {disk("nvme", 7, 5)};
  EXPECT_FALSE(forecast(request).problem.has_kept());
  request.machine.dram_capacity.value = units::gigabytes(40);
  const auto bytes_on = [](const Forecast& forecast, const char* home) {
    return states_on(home, forecast.problem, forecast.plan).value();
  };
  const Forecast result = forecast(request);
  EXPECT_TRUE(result.fits());
  EXPECT_TRUE(result.problem.has_kept());
  for (std::size_t i = 0; i < result.plan.assignments.size(); ++i)
    EXPECT_EQ(sched::is_resident(result.plan.assignments[i]),
              result.problem.subgroups[i].kept_on == 0);
  // What weights, gradients and activations leave of 80 GB, less 3 %, and two updates where a disk
  // is needed.
  EXPECT_GT(bytes_on(result, "gpu 0"), 48e9);
  EXPECT_GT(bytes_on(result, "nvme"), 1e9);
  request.settings.policy.residents = false;
  const Forecast without = forecast(request);
  EXPECT_EQ(bytes_on(without, "gpu 0"), 0);
  EXPECT_NEAR(bytes_on(without, "nvme"), bytes_on(result, "nvme") + bytes_on(result, "gpu 0"), 2e9);
  EXPECT_GT(without.step.value(), 5 * result.step.value());
  request.settings.policy.residents = true;
  request.policy = "zero-offload";
  EXPECT_FALSE(forecast(request).problem.has_kept());
}

// Files of states become files of the checkpoint; where the working parameters are the FP32
// masters, these are in memory and written.
TEST(Homes, OnDisksAreNotWrittenToCheckpointsAgain) {
  Request request = small_node({disk("nvme", 7, 5)});
  request.storage = {.node = units::gigabytes_per_second(1),
                     .total = units::gigabytes_per_second(1)};
  const Forecast planned = forecast(request);
  const units::Bytes on_disk = uses_of_tiers(planned).front().states;
  const CheckpointForecast result = forecast_checkpoints(request, planned);
  EXPECT_NEAR(result.own.value(), states_of(planned), 1);
  EXPECT_NEAR(result.taken.value(), on_disk.value(), 1);
  EXPECT_GE(result.write.value(), (result.own - result.taken).value() / 1e9 * (1 - 1e-9));
  EXPECT_LE(result.write.value(),
            (result.own - result.taken).value() / 1e9 + planned.plan.time.value());
  EXPECT_THAT(report_text(request, planned, sched::replay(planned.problem, planned.plan)),
              HasSubstr("GB are on disks and taken as they are)"));

  request.settings.fp32 = true;
  // Parameters and gradients alone take 8 bytes each.
  request.machine.dram_capacity.value = units::gigabytes(64);
  const Forecast masters = forecast(request);
  EXPECT_NEAR(forecast_checkpoints(request, masters).taken.value(),
              uses_of_tiers(masters).front().states.value(), 1);
}

// In FP32 forward reads the parameters, which stay in host memory.
TEST(Homes, OfParametersThatForwardReadsAreHostMemory) {
  Request request = small_node({disk("nvme", 7, 5)});
  request.settings.fp32 = true;
  request.settings.state_memory = units::Bytes{0};
  request.machine.dram_capacity.value = units::gigabytes(400);
  const Forecast result = forecast(request);
  const units::Bytes params = result.problem.total() * units::BytesPerParam(4);
  EXPECT_NEAR(states_on("host", result.problem, result.plan).value(), params.value(), 1);
  const TierUse use = uses_of_tiers(result).front();
  EXPECT_NEAR(use.states.value(), 2 * params.value(), 1);
  EXPECT_NEAR(use.read.value(), 2 * params.value(), 1);
  const sched::Replay replay = sched::replay(result.problem, result.plan);
  EXPECT_NEAR(replay.links.back().in_bytes.value(), 2 * params.value(), 1e3);
  // A second of the disk is that of 8 bytes a parameter.
  EXPECT_LE(use.written / units::gigabytes_per_second(5), result.plan.time);
  EXPECT_LE(result.plan.bound.time, result.plan.time * (1 + 1e-9));
}

TEST(Homes, AreAsTrainGptIsToldToHaveThem) {
  Request request = small_node({disk("nvme", 7, 5), disk("sata", 0.5, 0.4)});
  request.machine.dram_capacity.value = units::gigabytes(400);
  const auto bytes_on = [](const Forecast& forecast, const char* home) {
    return states_on(home, forecast.problem, forecast.plan).value();
  };
  EXPECT_NEAR(bytes_on(forecast(request), "host"), states_of(forecast(request)), 1);
  request.settings.state_memory = units::Bytes{0};
  const Forecast none = forecast(request);
  EXPECT_NEAR(bytes_on(none, "nvme") + bytes_on(none, "sata"), states_of(none), 1);
  EXPECT_EQ(none.problem.host_memory, none.problem.slots);
  request.settings.state_memory = units::gigabytes(30);
  const Forecast some = forecast(request);
  const double largest = static_cast<double>(some.problem.largest()) * 12;
  EXPECT_NEAR(bytes_on(some, "host"), 30e9 - some.problem.slots->value(), largest);
  // A name is the machine's, a folder the next disk that no name is of.
  request.settings.disks = {{.folder = "/any"}, {.folder = "nvme", .most = units::gigabytes(9)}};
  const Forecast named = forecast(request);
  ASSERT_EQ(named.machine.tiers.size(), 2U);
  EXPECT_EQ(named.machine.tiers[0].name, "sata");
  EXPECT_EQ(named.machine.tiers[1].capacity.value, units::gigabytes(9));
  EXPECT_LE(bytes_on(named, "nvme"), 9e9);
  EXPECT_THAT(report_text(request, named, sched::replay(named.problem, named.plan)),
              AllOf(HasSubstr(" --set sched.disks=/any,nvme:9000MB "),
                    HasSubstr(" --set sched.host_memory=30\n")));
  request.settings.disks.push_back({.folder = "/third"});
  EXPECT_THAT([&] { forecast(request); },
              testing::ThrowsMessage<Error>(HasSubstr("sched.disks names 3 disk(s)")));
  request.machine.tiers.clear();
  request.settings.disks.clear();
  EXPECT_THAT([&] { forecast(request); },
              testing::ThrowsMessage<Error>(HasSubstr("rtx4090 has no disk for the states")));
}

// Whose disks are named leaves the rest of the machine a quarter of what is left.
TEST(Homes, AreHostMemoryForMostOfWhatIsLeft) {
  Request request = small_node({disk("nvme", 7, 5)});
  request.machine.dram_capacity.value = units::gigabytes(110);
  const Forecast all = forecast(request);
  EXPECT_EQ(uses_of_tiers(all).front().states.value(), 0);
  request.settings.disks = {{.folder = "/nvme"}};
  // As many records of subgroups.
  request.settings.subgroup_params = all.problem.largest();
  const Forecast most = forecast(request);
  const double room = all.problem.host_memory.value();
  const double slots = most.problem.slots.value().value();
  EXPECT_NEAR(most.problem.host_memory.value(), slots + 0.75 * (room - slots), 1);
}

TEST(Homes, OfRanksOfANodeAddUp) {
  Request request = test::request("h100-4x", "llama-30b", 4);
  request.machine.dram_capacity.value = units::gigabytes(240);
  request.machine.tiers = {disk("nvme", 14, 10)};
  const Forecast result = forecast(request);
  double of_a_rank = 0;
  for (const HomePart& part : parts_of(result.problem, result.plan))
    if (part.home == "nvme") of_a_rank += part.states.value();
  EXPECT_GT(of_a_rank, 0);
  EXPECT_NEAR(uses_of_tiers(result).front().states.value(), 4 * of_a_rank, 1);
}

TEST(Homes, SayHowLongADiskLasts) {
  Request request = small_node({disk("nvme", 7, 5), disk("sata", 0.5, 0.4)});
  request.machine.tiers[0].endurance = {units::Bytes(1.2e15), "test"};
  const Forecast result = forecast(request);
  const std::vector<TierUse> uses = uses_of_tiers(result);
  ASSERT_EQ(uses.size(), 2U);
  EXPECT_NEAR(*uses[0].days, 1.2e15 / uses[0].a_day.value(), 1e-9);
  const std::string text = homes_text(result);
  EXPECT_THAT(text, HasSubstr("nvme -> "));
  EXPECT_THAT(text, HasSubstr("TB written a day, its endurance after"));
}

TEST(Homes, StandInTheJson) {
  Request request = small_node({disk("nvme", 7, 5)});
  request.machine.tiers[0].endurance = {units::Bytes(1.2e15), "test"};
  const Forecast result = forecast(request);
  const auto json = nlohmann::json::parse(report_json(request, result));
  double sum = 0;
  for (const auto& [tier, bytes] : json["home"].items()) sum += bytes.get<double>();
  EXPECT_NEAR(sum, states_of(result), 1);
  EXPECT_GT(json["home"]["nvme"].get<double>(), 0);
  EXPECT_TRUE(json["home"].contains("host"));
  EXPECT_TRUE(json["home"].contains("gpu 0"));
  const auto& tier = json["tiers"]["nvme"];
  for (const char* key :
       {"states", "files", "capacity", "read", "written", "written_a_day", "endurance_days"})
    EXPECT_GT(tier[key].get<double>(), 0) << key;
}

TEST(Homes, SubgroupsAreSmallWhereDisksNeedRoom) {
  const Forecast chosen = forecast(small_node({disk("nvme", 7, 5)}));
  Request given = small_node({disk("nvme", 7, 5)});
  given.settings.subgroup_params = 100'000'000;
  EXPECT_LT(chosen.plan.time, forecast(given).plan.time);
  EXPECT_LT(chosen.problem.largest(), 50'000'000);
}

}  // namespace
}  // namespace dos::planner::tier_uses_test
