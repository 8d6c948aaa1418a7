// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

#include "base/error.hpp"
#include "message_of.hpp"
#include "planner/activation_choice.hpp"
#include "planner/planner.hpp"
#include "planner/tier_uses.hpp"
#include "requests.hpp"

namespace dos::planner::activations_test {
namespace {

using shape::ActivationPlan;
using units::Bytes;
using units::Seconds;

/// The run of tests/simulated/training_node.cpp with one GPU, whose figures
/// docs/performance/activations.md has: tasks take their FLOP and bytes at 200 TFLOP/s and 2 TB/s,
/// those of eight CPU workers at 10 GB/s each.
Request simulated_run() {
  Request request;
  request.machine = perfmodels::find_machine("h100-4x", test::machine_folder());
  request.machine.gpus.value = 1;
  request.machine.cpu_workers.value = 8;
  request.machine.cpu_update_rate.value =
      units::gigabytes_per_second(8 * 10) / perfmodels::kCpuUpdateTraffic;
  request.machine.gpu_update_rate.value =
      units::gigabytes_per_second(2000) / perfmodels::kCpuUpdateTraffic;
  request.model = shape::model_of("six layers", {"gpt2", 6, 768, 12, 1024, 8192});
  request.micro_batch = 8;
  request.settings.subgroup_params = 1'000'000;
  // Of all its tasks, bound by memory or not: what makes the step with `keep` as long as simulated.
  request.machine.training_rate.value = units::FlopsPerSecond(103e12);
  return request;
}

TEST(Activations, OfASimulatedRunAreForecastWithinFivePercent) {
  for (const auto& [plan, milliseconds] : std::vector<std::pair<const char*, double>>{
           {"keep", 26.2}, {"selective", 26.6}, {"host", 27.5}, {"recompute", 29.1}}) {
    Request request = simulated_run();
    set_activations(request.settings, plan);
    const Forecast result = forecast(request);
    EXPECT_NEAR(result.step.value() * 1e3 / milliseconds, 1, 0.05) << plan;
  }
}

// Each figure alone: what is not hidden is what the step gains without it.
TEST(Activations, SayWhatTheirMovesHide) {
  Request request = simulated_run();
  set_activations(request.settings, "host");
  const Forecast result = forecast(request);
  // Three of six blocks: the last three keep their buffers.
  ASSERT_EQ(result.activation_uses.size(), 4U);
  const ActivationUse& host = result.activation_uses[1];
  EXPECT_EQ(host.where, "host");
  EXPECT_EQ(host.blocks, 3);
  EXPECT_DOUBLE_EQ(host.bytes.value(), 3 * 8192 * (2.0 * 9 * 768 + 4 * 12));
  EXPECT_NEAR(host.exposed.value(), result.phases.moving.value(), 1e-12);
  EXPECT_NEAR((host.hidden + host.exposed).value(), 2 * host.bytes.value() / 55.2e9, 1e-9);
  EXPECT_GT(host.exposed, Seconds(0));
  EXPECT_GT(host.hidden, host.exposed);
  // Faster links hide all.
  request.machine.h2d.value = request.machine.d2h.value = units::gigabytes_per_second(1000);
  request.machine.both.value = units::gigabytes_per_second(2000);
  EXPECT_NEAR(forecast(request).phases.moving.value(), 0, 1e-5);
}

/// A model of so many blocks with rates of which each may be what limits.
struct Case {
  shape::Model model;
  PassRates rates;

  explicit Case(std::mt19937& random)
      : model(
            shape::model_of("m", {"gpt2", 1 + static_cast<Index>(random() % 6), 64, 4, 32, 100})) {
    const auto drawn = [&](double least, double most) {
      return std::uniform_real_distribution<double>(least, most)(random);
    };
    rates = {.compute = units::FlopsPerSecond(drawn(1e8, 2e9)),
             .memory = units::BytesPerSecond(drawn(1e7, 1e9)),
             .link = std::nullopt,
             .disk = std::nullopt,
             .dram = units::BytesPerSecond(drawn(1e7, 1e9))};
    const units::BytesPerSecond link(drawn(1e6, 1e8));
    if (random() % 3 > 0) rates.link = CopyRates{link, link, link * drawn(1, 2)};
    if (random() % 2 > 0)
      rates.disk =
          DiskRates{units::BytesPerSecond(drawn(1e6, 1e8)), units::BytesPerSecond(drawn(1e6, 1e8))};
  }
};

/// Bytes of a device by what train_gpt registers, which the choice does not count by.
double registered(const shape::Model& model, const ActivationPlan& plan, double tokens) {
  return tokens *
         static_cast<double>(shape::count_activations(*model.family, model.config, {.plan = plan})
                                 .bytes(size_of(DType::kF32)));
}

/// Bytes of the host likewise: what is moved there, and what passes through it on its way to and
/// from a device that has memory of its own.
double registered_on_host(const Case& drawn, const ActivationPlan& plan, double tokens) {
  const shape::Model& model = drawn.model;
  const shape::Passes passes{.plan = plan};
  const auto bytes = [](const shape::ActivationCount& count) {
    return static_cast<double>(count.bytes(size_of(DType::kF32)));
  };
  const double moved =
      bytes(shape::count_moved(*model.family, model.config, passes, shape::Refill::kHost));
  const double passing = bytes(shape::count_in_transit(*model.family, model.config, passes));
  return tokens * (moved + (drawn.rates.link ? passing : 0));
}

std::vector<ActivationPlan> all_plans(Index blocks) {
  std::vector<ActivationPlan> plans;
  for (Index moved = 0; moved <= blocks; ++moved)
    for (Index hosted = 0; hosted + moved <= blocks; ++hosted)
      for (Index recomputed = 0; recomputed + hosted + moved <= blocks; ++recomputed)
        for (Index selective = 0; selective + recomputed + hosted + moved <= blocks; ++selective)
          plans.push_back({moved, hosted, recomputed, selective});
  return plans;
}

TEST(Choice, IsTheBestOfAllPlans) {
  std::mt19937 random(20);  // NOLINT: the same cases in every run
  constexpr double kTokens = 64;
  Index found = 0;
  Index moving = 0;
  for (Index i = 0; i < 800; ++i) {
    SCOPED_TRACE(i);
    const Case drawn(random);
    const PassModel passes(drawn.model, drawn.rates, kTokens, DType::kF32);
    const double least = registered(drawn.model, shape::kRecomputeAll, kTokens);
    const double most = registered(drawn.model, {}, kTokens);
    const double limit = least + (most - least) * static_cast<double>(random() % 11) / 10 + 1;
    const double beside = most - activation_need(passes, {}).device.value();
    const auto blocks = [&](auto count) { return passes.made() * static_cast<double>(count); };
    const ActivationRoom room{.device = Bytes(limit - beside),
                              .host = drawn.rates.link ? blocks(random() % 9) : Bytes(0),
                              .disk = drawn.rates.disk ? blocks(random() % 4) : Bytes(0)};
    const auto chosen = choose_activations(passes, room);
    double fastest = std::numeric_limits<double>::infinity();
    std::vector<std::pair<ActivationPlan, double>> fitting;
    for (const ActivationPlan& plan : all_plans(drawn.model.config.layers)) {
      const ActivationRoom need = activation_need(passes, plan);
      const double on_host = registered_on_host(drawn, plan, kTokens);
      if (registered(drawn.model, plan, kTokens) > limit || on_host > room.host.value() ||
          need.disk > room.disk)
        continue;
      const PhaseTimes times = passes.times(plan);
      fitting.emplace_back(plan, (times.forward + times.backward).value());
      fastest = std::min(fastest, fitting.back().second);
    }
    ASSERT_EQ(chosen.has_value(), !fitting.empty());
    if (!chosen) continue;
    EXPECT_TRUE(chosen->plan.hosted == 0 || room.host > Bytes(0));
    EXPECT_TRUE(chosen->plan.moved == 0 || room.disk > Bytes(0));
    EXPECT_LE(chosen->time.value(), fastest * (1 + kSameTime));
    EXPECT_LE(registered(drawn.model, chosen->plan, kTokens), limit);
    const ActivationRank rank = rank_of(passes, chosen->plan, chosen->time, Seconds(fastest));
    for (const auto& [plan, time] : fitting) {
      const ActivationRank other = rank_of(passes, plan, Seconds(time), Seconds(fastest));
      EXPECT_FALSE(other < rank) << shape::activation_plan_text(plan, 9) << " for "
                                 << shape::activation_plan_text(chosen->plan, 9);
    }
    if (limit > most) {
      EXPECT_TRUE(chosen->plan.keeps_all());
    }
    moving += rank.moved > 0 ? 1 : 0;
    ++found;
  }
  EXPECT_GT(found, 530);
  EXPECT_GT(moving, 40);
  const shape::Model model = shape::model_of("m", {"gpt2", 4, 64, 4, 32, 100});
  const PassModel passes(model, Case(random).rates, kTokens, DType::kF32);
  const Bytes least = activation_need(passes, shape::kRecomputeAll).device;
  EXPECT_TRUE(choose_activations(passes, {.device = least}));
  EXPECT_FALSE(choose_activations(passes, {.device = least - Bytes(1)}));
}

// A model that computes nothing to speak of: forward and backward are what the disk has to do.
TEST(DiskRow, IsAllThatADiskDoesFromForwardToBackward) {
  const shape::Model model = shape::model_of("m", {"gpt2", 6, 64, 4, 32, 100});
  const ActivationPlan all{.moved = ActivationPlan::kAll};
  const units::BytesPerSecond fast(1e15);
  PassRates rates{.compute = units::FlopsPerSecond(1e18),
                  .memory = fast,
                  .link = std::nullopt,
                  .disk = DiskRates{units::BytesPerSecond(1e6), units::BytesPerSecond(2e6)},
                  .dram = fast};
  const DiskLoad beside{.read = Bytes(3e6), .written = Bytes(5e6)};
  const auto pass = [&](const ActivationPlan& plan, const DiskLoad& traffic) {
    PassModel passes(model, rates, /*tokens=*/64, DType::kF32);
    passes.share_disks(traffic);
    return passes.times(plan);
  };
  // Three of six blocks, each way: 9 C numbers a token, and one for each head.
  const double moved = 3 * 64 * 4 * (9 * 64 + 4);
  const PhaseTimes turns = pass(all, beside);
  EXPECT_NEAR((turns.forward + turns.backward).value(), (moved + 5e6) / 1e6 + (moved + 3e6) / 2e6,
              1e-6);
  EXPECT_NEAR(turns.moving.value(), (turns.forward + turns.backward).value(), 1e-6);
  rates.disk->both = units::BytesPerSecond(2.5e6);
  const PhaseTimes at_once = pass(all, beside);
  EXPECT_NEAR((at_once.forward + at_once.backward).value(), (moved + 5e6) / 1e6, 1e-6);
  rates.disk->both = units::BytesPerSecond(1e6);
  const PhaseTimes one_rate = pass(all, beside);
  EXPECT_NEAR((one_rate.forward + one_rate.backward).value(), (2 * moved + 8e6) / 1e6, 1e-6);
  // Who moves nothing there does not wait for it.
  EXPECT_NEAR(pass(shape::kRecomputeAll, beside).backward.value(), 0, 1e-6);
}

// Moving hides until a disk has more else to do.
TEST(DiskRow, HasNoneChooseADiskThatIsBusy) {
  const shape::Model model = shape::model_of("m", {"gpt2", 6, 64, 4, 32, 100});
  const units::BytesPerSecond fast(1e15);
  const units::BytesPerSecond disk(1e8);
  PassModel passes(model,
                   {.compute = units::FlopsPerSecond(1e8),
                    .memory = fast,
                    .link = std::nullopt,
                    .disk = DiskRates{disk, disk},
                    .dram = fast},
                   /*tokens=*/64, DType::kF32);
  const ActivationRoom room{
      .device = activation_need(passes, {.moved = ActivationPlan::kAll}).device,
      .disk = Bytes(1e12)};
  const auto free = choose_activations(passes, room);
  ASSERT_TRUE(free);
  EXPECT_GT(free->plan.moved, 0);
  // To compute all again takes a third more.
  passes.share_disks({.written = disk * free->time * 2});
  const auto busy = choose_activations(passes, room);
  ASSERT_TRUE(busy);
  EXPECT_EQ(busy->plan.moved, 0);
  EXPECT_GT(busy->time, free->time);
}

/// One GPU, and a disk beside it.
Request request_with_disk() {
  Request request = test::request("h100", "llama-7b", 1);
  request.micro_batch = 8;
  request.machine.dram_capacity.value = units::gigabytes(125);
  perfmodels::Tier tier;
  tier.name = "nvme";
  tier.folders = {"/nvme"};
  tier.capacity.value = units::gigabytes(4000);
  tier.read.value = tier.write.value = units::gigabytes_per_second(30);
  tier.latency.value = units::microseconds(20);
  request.machine.tiers = {tier};
  request.settings.subgroup_params = 100'000'000;
  return request;
}

// What each rank writes of a checkpoint, and only where it comes to that disk.
TEST(ActivationForecast, HasCheckpointsOfTheSameDiskInItsRow) {
  Request request = request_with_disk();
  set_activations(request.settings, "disk");
  const auto beside = [&](Index every, const char* folder) {
    request.settings.checkpoint_every = every;
    request.settings.checkpoint_folder = folder;
    const Forecast result = forecast(request);
    const DiskLoad traffic = traffic_beside_activations(request, result);
    EXPECT_EQ(traffic.read.value(), 0);
    EXPECT_GE((result.phases.forward + result.phases.backward).value(),
              (2.0 * result.activations_on_disk + traffic.written).value() / 30e9 * (1 - 1e-9));
    return traffic.written / units::Bytes(12.0 * static_cast<double>(request.model.params()));
  };
  EXPECT_NEAR(beside(1, "/nvme/checkpoints"), 1, 1e-9);
  EXPECT_NEAR(beside(8, "/nvme/checkpoints"), 1.0 / 8, 1e-9);
  EXPECT_EQ(beside(1, "/elsewhere"), 0);
  EXPECT_EQ(beside(1, ""), 0);
  EXPECT_EQ(beside(0, "/nvme/checkpoints"), 0);
}

// States stream beside forward and backward as far as their slots go.
TEST(ActivationForecast, HasStatesOfTheSameDiskInItsRow) {
  Request request = request_with_disk();
  set_activations(request.settings, "disk");
  request.settings.disks = {{.folder = "/nvme"}};
  request.settings.state_memory = Bytes{0};
  request.settings.policy.residents = false;
  const Forecast result = forecast(request);
  const Bytes slots = result.problem.slots.value();
  ASSERT_LT(slots, states_on("nvme", result.problem, result.plan));
  Request limited = request;
  limited.machine = result.machine;
  const DiskLoad beside = traffic_beside_activations(limited, result);
  EXPECT_NEAR(beside.read / slots, 1, 1e-9);
  EXPECT_NEAR(beside.written / slots, 1, 1e-9);
  const double bound = 2 * (result.activations_on_disk + slots).value() /
                       request.machine.tiers[0].read.value.value();
  EXPECT_GE((result.phases.forward + result.phases.backward).value(), bound * (1 - 1e-9));
  // On another disk they are in nobody's way.
  request.machine.tiers.push_back(request.machine.tiers.front());
  request.machine.tiers.back().name = "other";
  request.machine.tiers.back().folders.clear();
  request.settings.activation_disks = {{.folder = "other"}};
  const Forecast apart = forecast(request);
  limited.machine = apart.machine;
  EXPECT_EQ(traffic_beside_activations(limited, apart).read.value(), 0);
}

TEST(ActivationForecast, ChoosesActivationsThatFit) {
  Request request = test::request("h100-4x-nvme", "llama-7b", 4);
  request.settings.chooses_activations = true;
  for (const Index micro_batch : {1, 12}) {
    SCOPED_TRACE(micro_batch);
    request.micro_batch = micro_batch;
    const Forecast chosen = forecast(request);
    EXPECT_TRUE(chosen.fits());
    for (const NamedActivations& each : chosen.named)
      if (each.fits) {
        EXPECT_LE(chosen.step.value(), each.step.value() * (1 + kSameTime));
      }
    EXPECT_EQ(chosen.named.size(), 5U);
    if (chosen.named.front().fits && chosen.plan.share(chosen.problem, &sched::is_resident) == 1) {
      EXPECT_TRUE(chosen.activations.keeps_all());
    }
  }
  request.micro_batch = 64;
  const Forecast none = forecast(request);
  EXPECT_FALSE(none.fits());
  EXPECT_EQ(none.activations, shape::kRecomputeAll);
}

// Activations that have all of the host's memory leave states no place: such a plan is no choice,
// and no reason to refuse the others.
TEST(ActivationForecast, LeavesStatesAPlace) {
  Request request = test::request("a100-4x", "llama-13b", 4);
  request.machine.tiers = perfmodels::find_machine("h100-4x-nvme", test::machine_folder()).tiers;
  request.micro_batch = 16;
  request.settings.subgroup_params = 50'000'000;
  set_activations(request.settings, "host");
  EXPECT_THAT(test::message_of<Error>([&] { forecast(request); }),
              testing::HasSubstr("fit nowhere"));
  set_activations(request.settings, "recompute");
  const Forecast recomputed = forecast(request);
  ASSERT_TRUE(recomputed.fits());
  set_activations(request.settings, "auto");
  const Forecast chosen = forecast(request);
  EXPECT_TRUE(chosen.fits());
  EXPECT_LE(chosen.step.value(), recomputed.step.value() * (1 + kSameTime));
  const auto host = std::ranges::find_if(
      chosen.named, [](const NamedActivations& each) { return each.plan.hosted > 0; });
  ASSERT_NE(host, chosen.named.end());
  EXPECT_FALSE(host->fits);
}

TEST(ActivationForecast, OfActivationsOnADiskCountsItsBytes) {
  Request request = test::request("h100-4x-nvme", "llama-7b", 4);
  request.micro_batch = 8;
  const Forecast without = forecast(request);
  set_activations(request.settings, "disk");
  const Forecast result = forecast(request);
  const auto disk = std::ranges::find(result.activation_uses, "disk", &ActivationUse::where);
  ASSERT_NE(disk, result.activation_uses.end());
  EXPECT_DOUBLE_EQ(result.activations_on_disk.value(), 4 * disk->bytes.value());
  EXPECT_GT(result.phases.moving, Seconds(0));
  // 29 blocks, through buffers of three.
  using enum MemoryCategory;
  const units::Bytes on_the_way = result.host.of(kActivations) - without.host.of(kActivations);
  EXPECT_NEAR(on_the_way / result.activations_on_disk, 3.0 / 29, 1e-6);
  EXPECT_TRUE(result.fits());
  request.machine.tiers.front().capacity.value = result.activations_on_disk * 0.9;
  EXPECT_FALSE(forecast(request).fits());
  EXPECT_EQ(forecast(request).limit, request.machine.tiers.front().name);
  request.machine.tiers.clear();
  EXPECT_THAT(test::message_of<Error>([&] { forecast(request); }),
              testing::HasSubstr("train.activations = disk:32: the machine file of"));
}

}  // namespace
}  // namespace dos::planner::activations_test
