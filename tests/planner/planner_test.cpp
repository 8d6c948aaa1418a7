// SPDX-License-Identifier: Apache-2.0
#include "planner/planner.hpp"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "planner/report.hpp"
#include "planner/subgroups.hpp"
#include "requests.hpp"
#include "sched/replay.hpp"

namespace dos::planner {
namespace {

using testing::HasSubstr;

std::string error_of(const Request& request) {
  try {
    forecast(request);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(LlamaShapes, HaveTheRealParameterCounts) {
  // The sample log counts 5,948,837,888 parameters and the paper's table billions.
  EXPECT_EQ(find_llama("llama-7b")->params(), 5'948'837'888);
  const auto billions = [](const char* name) {
    return static_cast<double>(find_llama(name)->params()) / 1e9;
  };
  EXPECT_NEAR(billions("llama-8.3b"), 9.143, 5e-4);
  EXPECT_NEAR(billions("llama-10b"), 9.919, 5e-4);
  EXPECT_NEAR(billions("llama-13b"), 11.316, 5e-4);
  EXPECT_NEAR(billions("llama-20b"), 15.327, 5e-4);
  EXPECT_NEAR(billions("llama-30b"), 27.865, 5e-4);
  // The paper's table says 55.14; the shape it gives has the 68.6 of the authors' later logs
  // (arXiv 2509.02480).
  EXPECT_NEAR(billions("llama-70b"), 68.6, 5e-2);
  EXPECT_FALSE(find_llama("llama-7").has_value());
}

TEST(Subgroups, OfThePublishedSampleRun) {
  // 130 subgroups at 10 M: embedding, 4 a layer of 16.78, 20.97, 90.18, 45.09 M, LM head; stride 2
  // puts 3.629 B parameters, 61 %, on the GPU.
  const auto subgroups = cut_as_published(*find_llama("llama-7b"), 1, 10'000'000);
  ASSERT_EQ(subgroups.size(), 130U);
  EXPECT_NEAR(static_cast<double>(subgroups[0].params), 206.05e6, 1e4);
  EXPECT_NEAR(static_cast<double>(subgroups[1].params), 16.78e6, 1e4);
  EXPECT_NEAR(static_cast<double>(subgroups[2].params), 20.97e6, 1e4);
  EXPECT_NEAR(static_cast<double>(subgroups[3].params), 90.18e6, 1e4);
  EXPECT_NEAR(static_cast<double>(subgroups[4].params), 45.09e6, 1e4);
  double odd = 0;
  for (std::size_t i = 1; i < subgroups.size(); i += 2)
    odd += static_cast<double>(subgroups[i].params);
  EXPECT_NEAR(odd, 3.629e9, 1e6);
}

TEST(Subgroups, AreNearEqualWithinADepth) {
  const ModelShape shape{.name = "m", .tensors = {{10, 0}, {7, 1}, {6, 1}}};
  const auto one = cut_evenly(shape, 1, 4);
  std::vector<Index> sizes;
  for (const auto& each : one) sizes.push_back(each.params);
  EXPECT_THAT(sizes, testing::ElementsAre(4, 3, 3, 4, 3, 3, 3));
  // A rank's share rounds up; one parameter a subgroup is the least.
  EXPECT_EQ(cut_evenly(shape, 3, 100).size(), 2U);
  EXPECT_EQ(cut_evenly(shape, 1, 1).size(), 23U);
}

TEST(Memory, OfTheSampleRunIsAsMeasured) {
  // 7B on one A100: 12.28 GiB allocated when idle are 16-bit weights and little else.
  Request request = test::request("a100", "llama-7b", 1);
  const Forecast result = forecast(request);
  EXPECT_EQ(result.gpu.items[0].category, "weights");
  EXPECT_NEAR(result.gpu.items[0].bytes.value(), 2 * 5.9488e9, 1e6);
  EXPECT_TRUE(result.fits());
}

/// The formulae of docs/scheduler.md on numbers that can be added by hand.
TEST(Memory, AndPhasesByHand) {
  const ModelShape shape{.name = "m",
                         .layers = 2,
                         .width = 8,
                         .ffn = 16,
                         .heads = 2,
                         .kv_heads = 1,
                         .context = 4,
                         .vocabulary = 10,
                         .gated = true,
                         .tensors = {{100, 0}, {50, 1}, {30, 1}, {20, 2}}};
  const Layout layout{.devices = 2, .devices_per_rank = 1, .ranks_per_node = 2, .tokens = 4};
  const auto bytes = [&](const Settings& settings) {
    std::vector<double> items;
    for (const MemoryItem& item : gpu_peak(shape, layout, settings, units::gigabytes(80)).items)
      items.push_back(item.bytes.value());
    return items;
  };
  // Of a token a block keeps 5 * 8 + 2 * 4 + 3 * 16 = 96 values and has 6 * 8 + 2 * 4 + 2 * 16 = 88
  // gradients; two blocks, 4 * 8 of stream and last norm, 2 * 8 of their gradients: 416. Beside
  // them 2 * (2 + 4) + 2 = 14 in FP32. Of four tokens:
  const double activations = 4 * (2 * 416 + 4 * 14);
  const double logits = 2 * 4 * 64;  // rows of 10 are filled up to 64
  Settings settings;
  EXPECT_THAT(bytes(settings),
              testing::ElementsAre(200, 2 * 2 * 100, 200, 2 * 100, activations, logits, 1.5e9));
  // ZeRO-2 keeps all 200 weights of 2 bytes, ZeRO-1 all gradients too, also when its own leave.
  settings.zero = 2;
  EXPECT_THAT(bytes(settings), testing::ElementsAre(400, 0, 200, 200, activations, logits, 1.5e9));
  settings.zero = 1;
  EXPECT_THAT(bytes(settings), testing::ElementsAre(400, 0, 400, 0, activations, logits, 1.5e9));
  settings.zero = 3;
  settings.recompute = false;
  settings.fp32 = true;
  EXPECT_THAT(bytes(settings), testing::ElementsAre(400, 4 * 2 * 100, 400, 4 * 100,
                                                    4 * (4 * 416 + 4 * 14), 2 * logits, 1.5e9));
  const auto left = state_memory(gpu_peak(shape, layout, {}, units::gigabytes(80)));
  EXPECT_DOUBLE_EQ(left.update.value(), 80e9 - 1.5e9 - 400);
  EXPECT_DOUBLE_EQ(left.resident.value(), 80e9 - 1.5e9 - 400 - 400 - 200 - activations - logits);
  // 200 parameters without the table of 80, and 2 * 2 * 4 * 8 of attention.
  EXPECT_DOUBLE_EQ(forward_flops(shape).value(), 2 * 120 + 128);

  perfmodels::Machine machine;
  machine.gpus.value = 2;
  machine.training_rate.value = units::FlopsPerSecond(368);
  machine.d2h.value = units::BytesPerSecond(1);
  machine.gather = {units::BytesPerSecond(100), ""};
  machine.both.value = units::BytesPerSecond(1);
  const auto times = [&](double flushed) {
    return phase_times(shape, machine, layout, settings, units::Params(flushed), units::Seconds(0));
  };
  // Four tokens take 4 s, half of 400 bytes of weights 2 s.
  settings = {};
  settings.policy.published = true;
  EXPECT_DOUBLE_EQ(times(0).forward.value(), 4 + 2);
  EXPECT_DOUBLE_EQ(times(0).backward.value(), 12 + 4);
  EXPECT_DOUBLE_EQ(times(0).exposed.value(), 6);
  // By depth 40, 224 and 104 FLOP and 1, 0.8 and 0.2 s of gathering. Forward waits for the first
  // gather and for what of the second the first product does not hide; backward for the first
  // gather and the last reduction.
  settings.policy.published = false;
  settings.exchange = ExchangeWay::kCollective;
  EXPECT_NEAR(times(0).forward.value(), 1 + 0.8 + 4.0 * (224 + 104) / 368, 1e-12);
  EXPECT_NEAR(times(0).backward.value(), 0.2 + 12 + 1, 1e-12);
  EXPECT_NEAR(times(0).exposed.value(), 1.8 - 4.0 * 40 / 368 + 1.2, 1e-12);
  // 2 bytes a parameter leave beside it.
  EXPECT_DOUBLE_EQ(times(50).backward.value(), 100);
  settings.flush_is_blocking = true;
  EXPECT_THROW(times(50), Error);
}

TEST(Memory, GrowsWithTheMicroBatchUntilNothingFits) {
  // [R]: 20B on 4x H100 runs with a micro-batch of 8.
  Request request = test::request("h100-4x", "llama-20b", 4);
  request.micro_batch = 8;
  EXPECT_TRUE(forecast(request).fits());
  request.micro_batch = 64;
  EXPECT_FALSE(forecast(request).fits());
}

TEST(Memory, GradientsLeaveDuringBackwardWhereTheyDoNotFit) {
  // 7B on 24 GB: weights and all gradients are 23.8 GB.
  Request request = test::request("rtx4090", "llama-7b", 1);
  const Forecast dos = forecast(request);
  EXPECT_TRUE(dos.gpu.fits());
  EXPECT_GT(dos.plan.gpu_share(dos.problem), 0);
  request.policy = "zero-offload";
  const Forecast cpu = forecast(request);
  EXPECT_TRUE(cpu.gpu.fits());
  EXPECT_LT(dos.plan.time, cpu.plan.time);
}

TEST(Memory, OfDeadActivationsIsTheUpdatesOnlyWhereTheyNeedIt) {
  Request request = test::request("h100-4x", "llama-20b", 4);
  request.settings.subgroup_params = 64'000'000;
  const auto borrowed = [&](Index micro_batch) {
    request.micro_batch = micro_batch;
    const Forecast result = forecast(request);
    EXPECT_TRUE(result.gpu.fits()) << micro_batch;
    const sched::StateMemory& memory = result.problem.memory.front();
    return memory.update - memory.resident;
  };
  EXPECT_EQ(borrowed(1), units::Bytes(0));
  EXPECT_EQ(borrowed(8), units::Bytes(0));
  EXPECT_GT(borrowed(26), units::gigabytes(10));
  // An allocator that gives blocks to anything loses nothing.
  request.policy = "dos-stride";
  request.settings.policy.published = true;
  EXPECT_GT(borrowed(1), units::Bytes(0));
}

TEST(Memory, OfGradientsLeavesDosTheFastestShare) {
  // Room for 25 % of the gradients, where 5 % of the states resident are faster than 25 %; and for
  // half of them, where every second subgroup is a hair faster than half of the parameters.
  Request large = test::request("gh200", "llama-20b", 1);
  large.micro_batch = 2;
  large.settings.fp32 = true;
  large.settings.subgroup_params = 60'000'000;
  Request small = test::request("rtx4090", "llama-1.3b", 1);
  small.micro_batch = 8;
  small.settings.fp32 = true;
  small.settings.subgroup_params = 5'000'000;
  for (const auto& [request, baseline] : {std::pair{large, "twinflow"}, {small, "dos-stride"}}) {
    const Forecast dos = forecast(request);
    EXPECT_TRUE(dos.gpu.fits());
    EXPECT_EQ(dos.plan.policy, "dos");
    Request other = request;
    other.policy = baseline;
    const Forecast best = forecast(other);
    EXPECT_TRUE(best.gpu.fits()) << baseline;
    EXPECT_LE(dos.plan.time, best.plan.time) << baseline;
  }
}

TEST(Memory, IsThatOfTheFullestGpu) {
  // Residents of four GPUs in whole subgroups, a window of what is left: no GPU has the most of
  // both.
  Request request = test::request("a100-4x", "llama-10b", 1);
  const Forecast dos = forecast(request);
  EXPECT_TRUE(dos.gpu.fits());
  for (const char* baseline : {"gpu-only", "twinflow", "zero-offload"}) {
    request.policy = baseline;
    const Forecast other = forecast(request);
    EXPECT_TRUE(other.gpu.fits()) << baseline;
    EXPECT_LE(dos.plan.time, other.plan.time) << baseline;
  }
}

TEST(Memory, RecomputeSavesActivations) {
  Request request = test::request("h100-4x", "llama-20b", 4);
  // It takes no more for states than it needs.
  request.policy = "zero-offload";
  const Forecast with = forecast(request);
  request.settings.recompute = false;
  EXPECT_GT(forecast(request).gpu.total(), with.gpu.total());
}

TEST(Forecast, CountsPhasesOnce) {
  const Forecast result = forecast(test::request("rtx4090", "llama-1.3b", 1));
  EXPECT_EQ(result.step, result.phases.forward + result.phases.backward + result.plan.time);
  EXPECT_GE(result.plan.time, result.plan.bound.time);
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
  EXPECT_EQ(error_of(request), "no error");
}

TEST(Forecast, SumsOfSeveralRanksComeFromHostMemory) {
  Request request = test::request("h100-4x", "llama-20b", 4);
  const Forecast direct = forecast(request);
  EXPECT_EQ(direct.problem.cost.streamed_in(), units::BytesPerParam(16));
  // Every GPU sends all of its 16-bit gradients to host memory, at 55.2 GB/s.
  EXPECT_GE(direct.phases.backward.value(),
            2 * static_cast<double>(request.model.params()) / 55.2e9);
  const double sums = 4 * static_cast<double>(request.model.params());
  for (const MemoryItem& item : direct.host.items)
    if (item.category == "gradients") {
      EXPECT_DOUBLE_EQ(item.bytes.value(), sums);
    }
  request.settings.exchange = ExchangeWay::kCollective;
  const Forecast between_gpus = forecast(request);
  EXPECT_EQ(between_gpus.problem.cost.streamed_in(), units::BytesPerParam(12));
  EXPECT_LT(between_gpus.plan.time, direct.plan.time);
  EXPECT_EQ(forecast(test::request("h100-4x", "llama-7b", 1)).problem.cost.streamed_in(),
            units::BytesPerParam(12));
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
    totals.push_back(forecast(request).host.total().value());
  }
  // All working parameters on both ranks, less two layers; then all gradients.
  const double params = static_cast<double>(request.model.params());
  EXPECT_GT(totals[1], totals[0]);
  EXPECT_NEAR(totals[1] - totals[0], 2 * params, 0.5 * params);
  EXPECT_NEAR(totals[2] - totals[1], 2 * params, 0.5 * params);
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
}  // namespace dos::planner
