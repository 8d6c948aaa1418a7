// SPDX-License-Identifier: Apache-2.0
#include "planner/memory.hpp"

#include <gmock/gmock.h>

#include <tuple>

#include "base/error.hpp"
#include "base/sanitizer.hpp"
#include "planner/planner.hpp"
#include "requests.hpp"
#include "shape/trained_groups.hpp"

namespace dos::planner::memory_test {
namespace {

TEST(Memory, OfTheSampleRunIsAsMeasured) {
  // 7B on one A100: 12.28 GiB allocated when idle are 16-bit weights and little else.
  Request request = test::request("a100", "llama-7b", 1);
  const Forecast result = forecast(request);
  EXPECT_NEAR(result.gpu.of(MemoryCategory::kWeights).value(), 2 * 5.9488e9, 1e6);
  EXPECT_TRUE(result.fits());
}

/// The formulae of docs/planner.md on numbers that can be added by hand.
TEST(Memory, AndPhasesByHand) {
  const shape::Model model = test::model_with(
      {{.name = "table", .rows = 10, .columns = 8, .init = {}, .depth = 0, .is_table = true},
       test::vector("a", 20, 0),
       test::vector("b", 50, 1),
       test::vector("c", 30, 1),
       test::vector("d", 20, 2)},
      {"llama", 2, 8, 2, 4, 10, /*kv_heads=*/1, /*ffn=*/16});
  const Deployment layout{.devices = 2, .devices_per_rank = 1, .ranks_per_node = 2, .tokens = 4};
  const auto bytes = [&](const PlanSettings& settings) {
    std::vector<double> items;
    for (const MemoryItem& item : gpu_peak(model, layout, settings, units::gigabytes(80)).items)
      items.push_back(item.bytes.value());
    return items;
  };
  // Of a token a block keeps 5 * 8 + 2 * 4 + 3 * 16 = 96 values and has 6 * 8 + 2 * 4 + 3 * 16 =
  // 104 gradients; two blocks, 4 * 8 of stream and last norm, 2 * 8 of their gradients: 448. Beside
  // them 2 * (2 + 2) + 1 = 9 in FP32. Of four tokens:
  const double activations = 4 * (2 * 448 + 4 * 9);
  const double logits = 2 * 4 * 64;  // rows of 10 are filled up to 64
  PlanSettings settings;
  EXPECT_THAT(bytes(settings),
              testing::ElementsAre(200, 2 * 2 * 100, 200, 2 * 100, activations, logits, 1.5e9));
  // ZeRO-2 keeps all 200 weights of 2 bytes, ZeRO-1 all gradients too, also when its own leave.
  settings.zero = 2;
  EXPECT_THAT(bytes(settings), testing::ElementsAre(400, 0, 200, 200, activations, logits, 1.5e9));
  settings.zero = 1;
  EXPECT_THAT(bytes(settings), testing::ElementsAre(400, 0, 400, 0, activations, logits, 1.5e9));
  settings.zero = 3;
  settings.activations = {};
  settings.fp32 = true;
  EXPECT_THAT(bytes(settings), testing::ElementsAre(400, 4 * 2 * 100, 400, 4 * 100,
                                                    4 * (4 * 448 + 4 * 9), 2 * logits, 1.5e9));
  const auto left = state_memory(gpu_peak(model, layout, {}, units::gigabytes(80)));
  EXPECT_DOUBLE_EQ(left.update.value(), 80e9 - 1.5e9 - 400);
  EXPECT_DOUBLE_EQ(left.resident.value(), 80e9 - 1.5e9 - 400 - 400 - 200 - activations - logits);
  // 200 parameters without the table of 80, and 2 * 2 * 4 * 8 of attention.
  EXPECT_DOUBLE_EQ(forward_flops(model).value(), 2 * 120 + 128);

  perfmodels::Machine machine;
  machine.gpus.value = 2;
  machine.training_rate.value = units::FlopsPerSecond(368);
  machine.d2h.value = units::BytesPerSecond(1);
  machine.gather = {units::BytesPerSecond(100), ""};
  machine.both.value = units::BytesPerSecond(1);
  const auto times = [&](double flushed) {
    return phase_times(model, machine, layout, settings, units::Params(flushed), units::Seconds(0));
  };
  // Four tokens take 4 s, half of 400 bytes of weights 2 s.
  settings = {};
  settings.policy.published = true;
  EXPECT_DOUBLE_EQ(times(0).forward.value(), 4 + 2);
  EXPECT_DOUBLE_EQ(times(0).backward.value(), 12 + 4);
  EXPECT_DOUBLE_EQ(times(0).exposed.value(), 6);
  // By depth 40, 224 and 104 FLOP and 1, 0.8 and 0.2 s of gathering. Forward waits for the first
  // gather and for what of the second the first product does not hide; backward for the first
  // gather and the last reduction. Two blocks have the buffers of two: nothing is computed again.
  settings.policy.published = false;
  settings.exchange = ExchangeWay::kCollective;
  EXPECT_NEAR(times(0).forward.value(), 1 + 0.8 + 4.0 * (224 + 104) / 368, 1e-12);
  EXPECT_NEAR(times(0).backward.value(), 0.2 + 8 + 1, 1e-12);
  EXPECT_NEAR(times(0).exposed.value(), 1.8 - 4.0 * 40 / 368 + 1.2, 1e-12);
  // 2 bytes a parameter leave beside it.
  EXPECT_DOUBLE_EQ(times(50).backward.value(), 100);
  settings.flush_is_blocking = true;
  EXPECT_THROW(times(50), Error);
}

/// The model of AndPhasesByHand without its first two depths.
TEST(Memory, OfWhatIsFrozenByHand) {
  shape::Model model = test::model_with({test::vector("a", 20, 0), test::vector("b", 50, 1),
                                         test::vector("c", 30, 2), test::vector("d", 20, 3)},
                                        {"llama", 2, 8, 2, 4, 10, /*kv_heads=*/1, /*ffn=*/16});
  shape::mark_trained({.frozen = {"a", "b"}, .factors = {}}, model.parameters);
  EXPECT_EQ(model.trained_params(), 50);
  const Deployment layout{.devices = 2, .devices_per_rank = 1, .ranks_per_node = 2, .tokens = 4};
  PlanSettings settings;
  const auto of = [&](MemoryCategory category) {
    return gpu_peak(model, layout, settings, units::gigabytes(80)).of(category).value();
  };
  // Weights of 2 bytes: all 120, half of them with ZeRO-3; gradients of the 50 that are trained.
  for (const auto& [zero, weights, gathered, gradients, reduced] :
       {std::tuple{3, 120, 2 * 2 * 50, 50, 2 * 30}, {2, 240, 0, 50, 2 * 30}, {1, 240, 0, 100, 0}}) {
    settings.zero = zero;
    EXPECT_EQ(of(MemoryCategory::kWeights), weights) << zero;
    EXPECT_EQ(of(MemoryCategory::kGathered), gathered) << zero;
    EXPECT_EQ(of(MemoryCategory::kGradients), gradients) << zero;
    EXPECT_EQ(of(MemoryCategory::kReduced), reduced) << zero;
  }
  // Half of 50 gradients of 2 bytes; as many weights; with ZeRO-3 half of 120, and of the 50 that
  // backward reaches.
  EXPECT_EQ(sent_by_rank(model, 2, settings).gradients.value(), 50);
  EXPECT_EQ(sent_by_rank(model, 2, settings).weights.value(), 50);
  settings.zero = 3;
  EXPECT_EQ(sent_by_rank(model, 2, settings).gradients.value(), 50);
  EXPECT_EQ(sent_by_rank(model, 2, settings).weights.value(), 120 + 50);

  perfmodels::Machine machine;
  machine.gpus.value = 2;
  machine.training_rate.value = units::FlopsPerSecond(1);
  machine.gather = {units::BytesPerSecond(1e12), ""};
  machine.both.value = units::BytesPerSecond(1e12);
  machine.d2h.value = units::BytesPerSecond(1e12);
  settings.exchange = ExchangeWay::kCollective;
  // Attention of depths 1 and 2: 64 FLOP a token each. What depth 2 learns costs a product more; of
  // the one block that backward reaches nothing is overwritten, so that nothing is computed again.
  const double forward = 4 * (2 * 120 + 2 * 64);
  const double reached = 4 * (2 * 50 + 64);
  for (const bool recompute : {false, true}) {
    set_recompute(settings, recompute);
    const PhaseTimes times =
        phase_times(model, machine, layout, settings, units::Params(0), units::Seconds(0));
    EXPECT_NEAR(times.forward.value(), forward, 1e-6);
    EXPECT_NEAR(times.backward.value(), 2 * reached, 1e-6);
  }
  // With depth 1 trained and 2 frozen, the latter's gradients of activations alone.
  model.parameters[1].trained = true;
  model.parameters[2].trained = false;
  settings.activations = {};
  EXPECT_NEAR(phase_times(model, machine, layout, settings, units::Params(0), units::Seconds(0))
                  .backward.value(),
              4 * (2 * (2 * 50 + 64) + (2 * 30 + 2 * 64) + 2 * 2 * 20), 1e-6);
}

TEST(Memory, OfAHostHasStatesThatWaitToBeWritten) {
  for (const char* machine : {"h100-4x", "cpu-2core"}) {
    Request request = test::request(machine, "gpt2-124m", 4);
    const Forecast without = forecast(request);
    request.settings.checkpoint_memory = units::gigabytes(0.25);
    const Forecast with = forecast(request);
    const auto ranks = static_cast<double>(with.layout.ranks_per_node);
    // 32 MiB if it is not more, and as much for the engine that writes.
    constexpr double kLeast = 32 << 20;
    EXPECT_EQ(with.host.of(MemoryCategory::kCheckpoints).value(), ranks * (0.25e9 + kLeast));
    EXPECT_EQ(without.host.of(MemoryCategory::kCheckpoints).value(), ranks * 2 * kLeast);
    // And 8 bytes of the kernel's for each of their pages.
    EXPECT_NEAR((with.host.total() - without.host.total()).value(),
                ranks * (0.25e9 - kLeast) * (1 + 8.0 / 4096), 1)
        << machine;
  }
}

TEST(Memory, OfAForecastIsThatOfWhatIsTrained) {
  for (const char* machine : {"h100-4x", "cpu-2core"}) {
    Request request = test::request(machine, "gpt2-124m", 1);
    const Forecast all = forecast(request);
    request.settings.trained.frozen = {"*_embedding.*", "blocks.?.*"};
    const Forecast some = forecast(request);
    // Two blocks of twelve and the last norm.
    EXPECT_EQ(some.trained_params, 2 * (12 * 768 * 768 + 13 * 768) + 2 * 768);
    EXPECT_EQ(some.problem.total().value(), static_cast<double>(some.trained_params));
    EXPECT_EQ(all.problem.total().value(), static_cast<double>(all.trained_params));
    const double frozen = static_cast<double>(all.trained_params - some.trained_params);
    // As forward reads it; ZeRO-3 without GPU has no other parameters for good.
    EXPECT_EQ(some.host.of(MemoryCategory::kFrozen).value(), 2 * frozen);
    EXPECT_EQ(all.host.of(MemoryCategory::kFrozen).value(), 0);
    EXPECT_LT((some.host.total() + some.gpu.total()).value(),
              (all.host.total() + all.gpu.total()).value());
    EXPECT_LT(some.plan.time, all.plan.time);
    EXPECT_LT(some.phases.backward, all.phases.backward);
    EXPECT_EQ(some.phases.forward, all.phases.forward);
  }
  Request published = test::request("h100-4x", "llama-7b", 4);
  published.settings.policy.published = true;
  published.settings.trained.frozen = {"blocks.0.*"};
  EXPECT_THAT([&] { forecast(published); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("leave optim.freeze out")));
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

TEST(Memory, WeightsPassThroughAGpuThatHasNoPlaceForAll) {
  // 13B: 22.6 GB of weights beside activations on 24 GB.
  Request request = test::request("rtx4090", "llama-13b", 1);
  const double weights = 2 * static_cast<double>(request.model.params());
  const Forecast dos = forecast(request);
  EXPECT_TRUE(dos.gpu.fits());
  EXPECT_GT(dos.plan.overflow, units::gigabytes(2));
  EXPECT_EQ(dos.step, dos.phases.forward + dos.phases.backward + dos.plan.time + dos.plan.refetch);
  EXPECT_LE(dos.plan.gpu_share(dos.problem) * weights + dos.plan.window_memory.front().value(),
            24e9);
  EXPECT_DOUBLE_EQ(dos.host.of(MemoryCategory::kWorking).value(), weights);
  request.policy = "zero-offload";
  EXPECT_LT(dos.step, forecast(request).step * 0.75);
  EXPECT_TRUE(forecast(request).gpu.fits());
}

TEST(Memory, WithLessForWeightsThatPassTheStepIsLonger) {
  Request request = test::request("rtx4090", "llama-7b", 1);
  const double buffers = 2 * 2 * 4096.0 * 32000;  // two of the largest depth: tables
  units::Seconds before{0};
  bool fits = true;
  for (double gigabytes = 40; gigabytes > 1; gigabytes -= kIsSanitized ? 3 : 1) {
    request.machine.gpu_memory.value = units::gigabytes(gigabytes);
    const Forecast result = forecast(request);
    EXPECT_LE(result.gpu.fits(), fits) << gigabytes;
    fits = result.gpu.fits();
    if (!fits) continue;
    EXPECT_GE(result.step, before * 0.97) << gigabytes;
    EXPECT_GE(result.gpu.of(MemoryCategory::kWeights).value(), buffers);
    before = result.step;
  }
  EXPECT_FALSE(fits) << "two layers, activations and work spaces are left";
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

/// Attention of heads that are together wider or narrower than the model, and of a window.
TEST(Phases, AttentionCountsItsHeadsAndItsWindow) {
  const auto flops = [](Index head_dim, Index window) {
    shape::ModelConfig config{"llama", 2, 8, 2, 4, 10, /*kv_heads=*/1, /*ffn=*/16};
    config.head_dim = head_dim;
    config.window = window;
    return forward_flops(test::model_with({test::vector("a", 20, 0)}, config)).value();
  };
  // Two layers, two products of 2 flop a number, over 4 / 2 tokens on average.
  EXPECT_DOUBLE_EQ(flops(0, 0), 2 * 20 + 2 * 2 * 2 * 2 * 8);
  EXPECT_DOUBLE_EQ(flops(6, 0), 2 * 20 + 2 * 2 * 2 * 2 * 12);
  // A window of 2: 1, 2, 2, 2 without the halves that the others leave out too: 2 - 4 / 8.
  EXPECT_DOUBLE_EQ(flops(0, 2), 2 * 20 + 2 * 2 * 2 * 1.5 * 8);
  EXPECT_DOUBLE_EQ(flops(0, 9), flops(0, 0));
}

TEST(Memory, OfGradientsLeavesDosTheFastestShare) {
  // Room for 25 % of the gradients, where 5 % of the states resident are faster than 25 %; and for
  // half of them, where every second subgroup is a hair faster than half of the parameters.
  Request large = test::request("gh200", "llama-20b", 1);
  large.micro_batch = 2;
  large.settings.fp32 = true;
  large.settings.subgroup_params = 60'000'000;
  Request small = test::request("rtx4090", "llama-1.3b", 1);
  small.micro_batch = 7;
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
  Request request = test::request("a100-4x", "llama-7b", 1);
  const Forecast dos = forecast(request);
  EXPECT_TRUE(dos.gpu.fits());
  EXPECT_GT(dos.plan.share(dos.problem, &sched::is_resident), 0.1);
  for (const char* baseline : {"gpu-only", "twinflow", "zero-offload"}) {
    request.policy = baseline;
    const Forecast other = forecast(request);
    EXPECT_TRUE(other.gpu.fits()) << baseline;
    EXPECT_LE(dos.plan.cost(), other.plan.cost()) << baseline;
  }
}

TEST(Memory, RecomputeSavesActivations) {
  Request request = test::request("h100-4x", "llama-20b", 4);
  // It takes no more for states than it needs.
  request.policy = "zero-offload";
  const Forecast with = forecast(request);
  request.settings.activations = {};
  EXPECT_GT(forecast(request).gpu.total(), with.gpu.total());
}

}  // namespace
}  // namespace dos::planner::memory_test
