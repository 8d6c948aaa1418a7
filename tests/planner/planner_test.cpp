// SPDX-License-Identifier: Apache-2.0
#include "planner/planner.hpp"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "message_of.hpp"
#include "planner/passes.hpp"
#include "planner/phases.hpp"
#include "planner/plan_report.hpp"
#include "planner/whole_step.hpp"
#include "requests.hpp"
#include "sched/policy.hpp"
#include "sched/replay.hpp"

namespace dos::planner::planner_test {
namespace {

using testing::HasSubstr;

std::string error_of(const Request& request) {
  return test::message_of<Error>([&] { forecast(request); });
}

TEST(Forecast, CountsPhasesOnce) {
  Request request = test::request("rtx4090", "llama-1.3b", 1);
  request.machine.gpus.value = 0;
  const Forecast result = forecast(request);
  EXPECT_EQ(result.step, result.phases.forward + result.phases.backward + result.plan.time);
  EXPECT_GE(result.plan.time, result.plan.bound.time);
  EXPECT_EQ(result.step_bound.binding, "");
}

TEST(Forecast, ProductsHaveTheRateOfTheirType) {
  Request request = test::request("h100", "llama-1.3b", 1);
  const auto rate = [&](DType type) { return pass_rates_of(request.machine, {}, type).compute; };
  EXPECT_EQ(rate(DType::kBF16), request.machine.training_rate.value);
  EXPECT_EQ(rate(DType::kF32), request.machine.training_rate_fp32->value);
  const units::Seconds narrow = forecast(request).phases.forward;
  request.settings.fp32 = true;
  // 67 TFLOP/s without tensor cores.
  EXPECT_GT(forecast(request).phases.forward, narrow * 5);
  request.machine.training_rate_fp32.reset();
  EXPECT_EQ(rate(DType::kF32), rate(DType::kBF16));
}

// Forward begins with the layers that are updated: the step hides no more of the update than
// forward is long, and keeps to its bound. A plan for the end of the update alone has a longer
// step.
TEST(Forecast, ForwardBeginsBesideTheUpdate) {
  bool is_better = false;
  for (const Index micro_batch : {1, 4, 16}) {
    SCOPED_TRACE(micro_batch);
    Request request = test::request("rtx4090", "llama-1.3b", 1);
    request.micro_batch = micro_batch;
    const Forecast result = forecast(request);
    const units::Seconds passes = result.phases.forward + result.phases.backward;
    EXPECT_LT(result.step, passes + result.plan.time);
    EXPECT_GE(result.step, result.phases.backward + result.plan.time);
    EXPECT_GE(result.step, result.step_bound.time);
    EXPECT_GE(result.step_bound.time, passes * (1 - 1e-12));
    EXPECT_FALSE(result.problem.forward.empty());
    sched::Problem alone = result.problem;
    alone.forward.clear();
    const sched::Plan plan = sched::make_plan("dos", alone);
    const units::Seconds other = step_beside(
        alone, plan, {.depths = depth_passes(request.model, result.phases), .ahead = {}},
        result.step_bound.time);
    EXPECT_GE(other, result.step);
    is_better = is_better || other > result.step * 1.01;
  }
  EXPECT_TRUE(is_better);
}

// The link has them all to carry before forward ends: activations that leave, and states that are
// streamed and go home, as no update goes ahead of the norm.
TEST(Forecast, ActivationsAndStatesShareTheLink) {
  for (const char* machine : {"rtx4090", "h100"}) {
    SCOPED_TRACE(machine);
    Request request = test::request(machine, "llama-1.3b", 1);
    request.micro_batch = 4;
    request.settings.gpu_limit = units::gigabytes(16);
    set_activations(request.settings, "host");
    const Forecast result = forecast(request);
    ASSERT_GT(result.phases.stores, units::Seconds(0));
    const units::Params streamed =
        result.problem.total() * result.plan.share(result.problem, &sched::is_streamed);
    ASSERT_GT(streamed, units::Params(0));
    EXPECT_GE(result.step.value(),
              (result.phases.backward + result.phases.stores +
               streamed * result.problem.cost.state / request.machine.d2h.value)
                      .value() *
                  (1 - 1e-12));
  }
}

// What ranks gather through host memory, and the update, take turns; what goes ahead of the norm
// does not wait for forward.
TEST(Forecast, GathersThroughHostMemoryTakeTurnsWithTheUpdate) {
  Request request = test::request("h100-4x", "llama-7b", 4);
  request.micro_batch = 8;
  request.settings.gpu_limit = units::gigabytes(30);
  const Forecast waiting = forecast(request);
  ASSERT_GT(waiting.phases.gathers, units::Seconds(0));
  EXPECT_GE(waiting.step, waiting.phases.backward + waiting.phases.gathers + waiting.plan.time);
  request.settings.speculation = SpeculationChoice::kOn;
  const Forecast ahead = forecast(request);
  EXPECT_LT(ahead.step, ahead.phases.backward + ahead.phases.gathers + ahead.plan.time);
  EXPECT_GT(ahead.ahead.hidden(), units::Seconds(0));
}

// A GPU's tasks cost more than small updates; a policy that leaves them to the CPU needs rounds.
TEST(Forecast, SubgroupsAreWorthAGpusTask) {
  Request request = test::request("h100", "gpt2-355m", 1);
  const auto subgroups = [&](const char* policy) {
    request.policy = policy;
    const Forecast result = forecast(request);
    EXPECT_GE(result.problem.total().value() / static_cast<double>(result.problem.largest()),
              4.0 * static_cast<double>(result.problem.rates.cpu_workers));
    return std::ssize(result.problem.subgroups);
  };
  EXPECT_LT(subgroups("dos"), 250);
  EXPECT_GT(subgroups("zero-offload"), 350);
}

// Where a GPU has no memory for a few updates at forward's peak the runtime plans for the update's
// end, and so does this.
TEST(Forecast, PlansForTheUpdateAloneWhereMemoryIsShort) {
  Request request = test::request("rtx4090", "llama-1.3b", 1);
  const Forecast roomy = forecast(request);
  const units::Bytes states = roomy.problem.memory.front().resident;
  const units::Bytes update =
      units::Params(static_cast<double>(roomy.problem.largest())) * roomy.problem.cost.held();
  request.settings.subgroup_params = roomy.problem.largest();
  request.settings.gpu_limit = request.machine.gpu_memory.value - states + update * 3.5;
  EXPECT_TRUE(forecast(request).problem.forward.empty());
  request.settings.gpu_limit = request.machine.gpu_memory.value - states + update * 8.0;
  EXPECT_FALSE(forecast(request).problem.forward.empty());
}

TEST(Forecast, ARankMayDriveSeveralGpusOrSpanNodes) {
  EXPECT_EQ(forecast(test::request("h100-4x", "llama-7b", 1)).problem.gpus(), 4);
  EXPECT_EQ(forecast(test::request("h100-4x", "llama-7b", 2)).problem.gpus(), 2);
  const Forecast two_nodes = forecast(test::request("h100-4x", "llama-70b", 8));
  EXPECT_EQ(two_nodes.problem.gpus(), 1);
  EXPECT_EQ(two_nodes.layout.devices, 8);
}

TEST(Forecast, SeveralNodesExchangeOverTheNetwork) {
  Request request = test::request("h100-4x", "llama-7b", 8);
  const Forecast fast = forecast(request);
  EXPECT_DOUBLE_EQ(fast.sent.gradients.value(), 2 * 5'948'837'888.0 * 7 / 8);
  EXPECT_DOUBLE_EQ(fast.sent.weights.value(), 2 * fast.sent.gradients.value());
  request.machine.network->bandwidth.value = units::gigabytes_per_second(1);
  const Forecast slow = forecast(request);
  EXPECT_EQ(slow.limit, "network");
  // Half of 11.9 GB comes over the network three times, once beside forward.
  EXPECT_GT(slow.phases.exposed.value(), 11.9 * 0.9);
  EXPECT_GT(slow.step, fast.step);
  request.machine.network.reset();
  EXPECT_THAT(error_of(request),
              HasSubstr("2 nodes of h100-4x: its machine file has no network.bandwidth"));
  request.ranks = 4;
  EXPECT_EQ(error_of(request), "");
}

TEST(Forecast, OfALighterRuleMovesAndKeepsLess) {
  // One state beside p, as SGD with momentum, Lion and Adagrad have: 8 bytes instead of 12, and 20
  // of traffic instead of 28.
  for (const char* policy : {"zero-offload", "dos"}) {
    SCOPED_TRACE(policy);
    Request request = test::request("a100", "llama-7b", 1);
    request.policy = policy;
    const Forecast adamw = forecast(request);
    request.settings.rule_states = 1;
    const Forecast lion = forecast(request);
    EXPECT_EQ(lion.problem.cost.state, units::BytesPerParam(8));
    EXPECT_EQ(lion.problem.cost.cpu_traffic, units::BytesPerParam(20));
    const auto states = [](const Forecast& result) {
      const double state = result.problem.cost.state.value();
      const double all = result.problem.total().value() * state;
      const double resident = result.plan.share(result.problem, &sched::is_resident);
      // Residents are loaded and saved through four slots.
      const auto largest = static_cast<double>(result.problem.largest());
      return all * (1 - resident) + (resident > 0 ? 4 * largest * state : 0);
    };
    EXPECT_DOUBLE_EQ(lion.host.items.front().bytes.value(), states(lion));
    EXPECT_LT(states(lion), states(adamw));
    // As much faster as there is less to move, but for copies of 16-bit working parameters.
    EXPECT_LT(lion.plan.time / adamw.plan.time, 0.80);
    EXPECT_GT(lion.plan.time / adamw.plan.time, 0.5);
  }
  Request request = test::request("a100", "llama-7b", 1);
  request.policy = "zero-offload";
  request.settings.policy.published = true;
  request.settings.rule_states = 1;
  EXPECT_THAT(error_of(request), HasSubstr("the published code updates with AdamW"));
}

TEST(Forecast, SumsOfSeveralRanksComeFromHostMemory) {
  Request request = test::request("h100-4x", "llama-20b", 4);
  const Forecast direct = forecast(request);
  EXPECT_EQ(direct.problem.cost.streamed_in(), units::BytesPerParam(16));
  // Every GPU sends all of its 16-bit gradients to host memory, at 55.2 GB/s.
  EXPECT_GE(direct.phases.backward.value(),
            2 * static_cast<double>(request.model.params()) / 55.2e9);
  const double sums = 4 * static_cast<double>(request.model.params());
  const double gradients = direct.host.of(MemoryCategory::kGradients).value();
  // All four ranks are taken for the one that owns most.
  EXPECT_GE(gradients, sums);
  EXPECT_LE(gradients, sums + 4 * 4 * static_cast<double>(direct.problem.largest()));
  request.settings.exchange = ExchangeWay::kCollective;
  const Forecast between_gpus = forecast(request);
  EXPECT_EQ(between_gpus.problem.cost.streamed_in(), units::BytesPerParam(12));
  EXPECT_LT(between_gpus.plan.time, direct.plan.time);
  EXPECT_EQ(forecast(test::request("h100-4x", "llama-7b", 1)).problem.cost.streamed_in(),
            units::BytesPerParam(12));
}

TEST(Forecast, FurtherTiersCountOnlyWhereHostMemoryIsShort) {
  Request request = test::request("h100-4x", "llama-20b", 4);
  request.settings.policy.residents = false;
  const Forecast without = forecast(request);
  perfmodels::Tier nvme;
  nvme.name = "nvme";
  nvme.capacity.value = units::gigabytes(1000);
  nvme.read.value = nvme.write.value = units::gigabytes_per_second(6);
  request.machine.tiers = {nvme};
  const Forecast with = forecast(request);
  EXPECT_EQ(with.plan.time, without.plan.time);
  EXPECT_EQ(with.plan.reason, without.plan.reason);
  // A node without room for 184 GB of states beside gradients: the disk has the rest.
  request.machine.dram_capacity.value = units::gigabytes(200);
  const Forecast short_of_memory = forecast(request);
  EXPECT_TRUE(short_of_memory.fits());
  EXPECT_GT(short_of_memory.plan.time, 2 * without.plan.time);
  sched::Problem problem = with.problem;
  problem.host_memory = units::gigabytes(20);
  const sched::Bound bound = sched::lower_bound(problem, {.residents = false});
  EXPECT_TRUE(bound.binding.starts_with("nvme")) << bound.binding;
  EXPECT_GT(bound.time, 2 * with.plan.bound.time);
}

// What a person has: a GPU of 24 GB, 64 GB of memory and a disk.
TEST(Forecast, ADiskTakesTheStatesOf13BillionParameters) {
  Request request = test::request("rtx4090", "llama-13b", 1);
  request.settings.host_limit = units::gigabytes(64);
  request.settings.gpu_limit = units::gigabytes(24);
  EXPECT_FALSE(forecast(request).fits());
  request.machine.tiers = {
      perfmodels::find_machine("h100-4x-nvme", test::machine_folder()).tiers.front()};
  const Forecast result = forecast(request);
  EXPECT_TRUE(result.fits()) << result.limit;
  EXPECT_LE(result.host.total().value(), 64e9);
  EXPECT_LE(result.gpu.total().value(), 24e9);
}

TEST(Forecast, RanksOfANodeMayBeChosen) {
  Request request = test::request("h100-4x", "llama-7b", 4);
  request.ranks_per_node = 2;
  const Forecast result = forecast(request);
  EXPECT_EQ(result.layout.devices, 8);
  EXPECT_EQ(result.problem.gpus(), 2);
  request.ranks_per_node = 3;
  request.ranks = 6;
  EXPECT_THAT(error_of(request), HasSubstr("--ranks-per-node 3 does not divide the 4 GPUs"));
  request.ranks = 4;
  EXPECT_THAT(error_of(request), HasSubstr("use a multiple of --ranks-per-node 3"));
  request.ranks_per_node = -1;
  EXPECT_THAT(error_of(request), HasSubstr("--ranks-per-node -1 must be at least 1"));
}

TEST(Forecast, SharingLessOnACpuNodeNeedsMoreMemory) {
  Request request = test::request("cpu-2core", "llama-1.3b", 2);
  std::vector<double> totals;
  for (const Index zero : {3, 2, 1}) {
    request.settings.zero = zero;
    const MemoryUse host = forecast(request).host;
    totals.push_back((host.total() - host.of(MemoryCategory::kRuntime)).value());
  }
  // All working parameters on both ranks, less two layers and the other's part of table and head;
  // then all gradients beside the sums, less two layers, table and head.
  const std::vector<Index> depths = request.model.params_by_depth();
  const double params = static_cast<double>(request.model.params());
  const auto layers = static_cast<double>(2 * depths[1]);
  const double ends = params - static_cast<double>(depths[1] * request.model.config.layers);
  // The fuller rank counts for both.
  const double uneven = 1e-4 * params;
  EXPECT_NEAR(totals[1] - totals[0], 2 * params - 4 * (layers + ends / 2), uneven);
  EXPECT_NEAR(totals[2] - totals[1], 4 * (params - layers - ends), uneven);
}

TEST(Forecast, HasNoMoreMemoryThanSettingsSay) {
  Request request = test::request("h100-4x", "llama-7b", 4);
  const Forecast all = forecast(request);
  request.settings.gpu_limit = units::gigabytes(30);
  request.settings.host_limit = units::gigabytes(25);
  const Forecast limited = forecast(request);
  EXPECT_EQ(limited.gpu.available, units::gigabytes(30));
  EXPECT_EQ(limited.host.available, units::gigabytes(100));
  EXPECT_TRUE(limited.gpu.fits());
  EXPECT_GT(limited.step, all.step);
  request.settings.host_limit = limited.host.total() / 4.0 * 0.9;
  EXPECT_EQ(forecast(request).limit, "host memory");
  // A machine has what it has.
  request.settings.gpu_limit = request.settings.host_limit = units::gigabytes(1e6);
  EXPECT_EQ(forecast(request).step, all.step);
}

TEST(Forecast, WithoutAGpu) {
  const Forecast result = forecast(test::request("cpu-2core", "llama-1.3b", 1));
  EXPECT_EQ(result.plan.gpu_share(result.problem), 0);
  EXPECT_TRUE(result.gpu.items.empty());
  EXPECT_GT(result.host.total().value(), 14 * 1.2e9);
}

TEST(Forecast, ErrorsSayWhatToDo) {
  Request request = test::request("h100-4x", "llama-7b", 3);
  EXPECT_THAT(error_of(request), HasSubstr("--ranks 3 does not divide the 4 GPUs of h100-4x"));
  request.ranks = 6;
  EXPECT_THAT(error_of(request), HasSubstr("use a multiple of its 4 GPUs"));
  request.ranks = 0;
  EXPECT_THAT(error_of(request), HasSubstr("--ranks 0: must be 1 to 1000000"));
  request.ranks = 4;
  request.micro_batch = 0;
  EXPECT_THAT(error_of(request), HasSubstr("--micro-batch 0: must be 1 to 1000000"));
  request.micro_batch = 1;
  request.policy = "doss";
  EXPECT_THAT(error_of(request), HasSubstr("unknown policy 'doss' (did you mean 'dos'?)"));
  request.policy = "dos";
  request.settings.policy.published = true;
  EXPECT_THAT(error_of(request), HasSubstr("use policy dos-stride"));
}

TEST(Report, JsonHasTheKeysThatScriptsRead) {
  const Request request = test::request("rtx4090", "llama-3b", 1);
  const auto json = nlohmann::json::parse(report_json(request, forecast(request)));
  for (const char* key :
       {"fits", "update_s", "step_s", "bound_s", "share", "window", "binding", "memory"})
    EXPECT_TRUE(json.contains(key)) << key;
  EXPECT_EQ(json["memory"]["gpu"]["available"], 24e9);
  EXPECT_GE(json["window"], 1);
  EXPECT_EQ(json["windows"].size(), 1U);
}

TEST(Report, TextNamesWhatDoesNotFit) {
  const Request request = test::request("rtx4090", "llama-20b", 1);
  const Forecast result = forecast(request);
  const auto text = report_text(request, result, sched::replay(result.problem, result.plan, true));
  EXPECT_THAT(text, HasSubstr("DOES NOT FIT"));
  EXPECT_THAT(text, HasSubstr("bound "));
  EXPECT_THAT(text, HasSubstr("timeline of "));
}

}  // namespace
}  // namespace dos::planner::planner_test
