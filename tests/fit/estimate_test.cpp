// SPDX-License-Identifier: Apache-2.0
#include "fit/estimate.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "config/plan_model.hpp"
#include "fails_with.hpp"
#include "models/family.hpp"
#include "rt/cuda.hpp"
#include "shape/cutter.hpp"
#include "shape/trained_groups.hpp"
#include "train/tiny_trainer.hpp"

namespace dos::fit::estimate_test {
namespace {

using test::fails_with;

rt::MemoryBytes some_bytes() {
  rt::MemoryBytes bytes;
  bytes[MemoryCategory::kParameters] = 1 << 20;
  bytes[MemoryCategory::kActivations] = 3 << 20;
  return bytes;
}

// Work space alone is allocated later, by StarPU, one for each worker.
TEST(Estimate, IsWhatATrainerRegisters) {
  const test::ScratchDirectory scratch;
  config::TrainConfig config = test::tiny_config(test::write_tiny_dataset(scratch));
  const shape::ModelConfig model = config.resolve_model(0);
  for (const auto& [precision, gradients] :
       {std::pair{"fp32", "fp32"}, {"bf16", "fp32"}, {"bf16", "bf16"}})
    for (const Index run_ahead : {1, 3})
      for (const double clip : {0.0, 1.0}) {
        config.optim.freeze = run_ahead == 3 ? "*_embedding.*,blocks.0.*" : "";
        config.train.precision = precision;
        config.train.gradient_precision = gradients;
        config.train.recompute = clip == 0;
        config.train.run_ahead = run_ahead;
        config.optim.clip = clip;
        rt::Session session({.scheduler = "", .cpu_workers = 2});
        const auto trainer = test::make_trainer(session, config, scratch / "out");
        const rt::MemoryBytes estimated = estimate_training(
            model, config.run_shape({.count = session.workers()}), trainer->parameters().layout(),
            config.parameter_types(), config.optimizer(), {.all = session.workers()}, run_ahead);
        const rt::MemoryBytes counted = session.memory().now();
        for (const MemoryCategory category : kBufferCategories)
          EXPECT_EQ(estimated[category], counted[category]) << name_of(category);
      }
}

TEST(Estimate, TheTableHasALineForEachCategoryThatIsThere) {
  const Unregistered rest{.tokens = units::Bytes(0x1p20),
                          .runtime = units::Bytes(0x1p21),
                          .program = units::Bytes(0x1p21),
                          .checkpoints = units::Bytes(0x1p22)};
  EXPECT_EQ(memory_table(host_use(some_bytes(), rest, 17)),
            "  parameters            1.00 MiB\n"
            "  activations           3.00 MiB\n"
            "  tokens ahead          1.00 MiB\n"
            "  runtime               2.00 MiB\n"
            "  program               2.00 MiB\n"
            "  checkpoint buffers    4.00 MiB\n"
            "  total                 13.0 MiB\n"
            "  available                 17 B");
}

double bytes_of(const planner::MemoryUse& use, MemoryCategory category) {
  EXPECT_NE(std::ranges::find(use.items, category, &planner::MemoryItem::category), use.items.end())
      << name_of(category);
  return use.of(category).value();
}

const shape::ModelConfig kModel{"gpt2", 3, 16, 2, 8, 100};

shape::Layout layout_of(const shape::ModelConfig& model, Index subgroup_params = 1000) {
  return shape::cut_into_subgroups(shape::find_family(model.architecture).parameters(model),
                                   subgroup_params, {});
}

// By hand, with the formula of docs/memory.md: C = 16, H = 2, L = 3, V = 100, which rows of
// logits are filled up from to 128.
TEST(Estimate, ADeviceHoldsWeightsGradientsAndItsLanes) {
  const shape::Layout layout = layout_of(kModel);
  const auto params = static_cast<double>(layout.parameter_count());
  EXPECT_EQ(params, 100 * 16 + 8 * 16 + 3 * (12 * 16 * 16 + 13 * 16) + 2 * 16);
  const tensor::ParameterTypes bf16{.working = DType::kBF16, .gradient = DType::kF32};
  for (const Index devices : {1, 2, 3}) {
    // Lanes of 3, 2 and 2 sequences: the first device has all, the first two, or the first.
    const double tokens = 8 * (devices == 1 ? 7 : devices == 2 ? 5 : 3);
    const double lanes = devices == 1 ? 3 : devices == 2 ? 2 : 1;
    const double sequences = tokens / 8;
    const shape::RunShape shape{.batch = 7, .lanes = 3, .logits_rows = 10, .type = bf16.working};
    const planner::MemoryUse use = estimate_device(kModel, shape, layout, bf16, {},
                                                   /*accumulate=*/1, devices, units::gigabytes(1));
    const double values = 4 * 16 + 3 * 15 * 16 + 16 + 2 * 16 + 2 * 12 * 16;
    EXPECT_EQ(bytes_of(use, MemoryCategory::kWeights), 2 * params);
    EXPECT_EQ(bytes_of(use, MemoryCategory::kGradients), 4 * params);
    EXPECT_EQ(bytes_of(use, MemoryCategory::kActivations),
              2 * tokens * values + 4 * tokens * (3 * 6 + 2) + 4 * sequences * 9 + 8 * lanes);
    EXPECT_EQ(bytes_of(use, MemoryCategory::kLogits), 2 * lanes * 10 * 128);
    EXPECT_GE(bytes_of(use, MemoryCategory::kWorkSpaces), rt::kCudaWorkspaceBytes);
    EXPECT_TRUE(use.fits());
  }
}

TEST(Estimate, ADeviceHasRoomForTheScoresOfHeadsOfMoreThan128) {
  const auto work_spaces = [](Index head_size) {
    const shape::ModelConfig model{"gpt2", 1, 3 * head_size, 3, 500, 100};
    return bytes_of(
        estimate_device(model, {}, layout_of(model, 1'000'000), {}, {}, 1, 1, units::gigabytes(1)),
        MemoryCategory::kWorkSpaces);
  };
  // Rows of 500 scores and of as many gradients, filled up to 512, of all three heads.
  EXPECT_EQ(work_spaces(144), rt::kCudaWorkspaceBytes + 3 * 2 * 500 * 512 * 4);
  // What CPUs copy of one head: all workers have one size (codelets/attention/attention.hpp).
  EXPECT_EQ(work_spaces(128), rt::kCudaWorkspaceBytes +
                                  (4 * 508 * 128 + 5 * 64 * 128 + 2 * 64 * 64 + 3 * 64 + 16) * 4);
}

TEST(Estimate, GradientsLeaveADeviceThatLacksRoomForAllUnlessTheyAreAccumulated) {
  const shape::Layout layout = layout_of(kModel);
  const shape::RunShape shape{.batch = 1};
  const auto gradients = [&](Index accumulate, double less) {
    const auto all =
        estimate_device(kModel, shape, layout, {}, {}, 1, 1, units::gigabytes(1)).total();
    return bytes_of(
        estimate_device(kModel, shape, layout, {}, {}, accumulate, 1, all - units::Bytes(less)),
        MemoryCategory::kGradients);
  };
  const auto all = 4 * static_cast<double>(layout.parameter_count());
  EXPECT_EQ(gradients(1, 0), all);
  // Those of the two largest depths: blocks here.
  EXPECT_EQ(gradients(1, 1), 2 * 4 * (12 * 16 * 16 + 13 * 16));
  EXPECT_EQ(gradients(2, 1), all);
}

TEST(Estimate, WeightsPassThroughADeviceThatLacksRoomForThem) {
  const shape::Layout layout = layout_of(kModel);
  const auto use = [&](Index accumulate, units::Bytes available) {
    return estimate_device(kModel, {.batch = 1}, layout, {}, {}, accumulate, 1, available);
  };
  const auto all = 4 * static_cast<double>(layout.parameter_count());
  const double block = 4 * (12 * 16 * 16 + 13 * 16);
  const units::Bytes total = use(1, units::gigabytes(1)).total();
  // Without the gradients that leave, so that the weights are next.
  const units::Bytes beside = total - units::Bytes(all - 2 * block);
  for (const double lacking : {1.0, block, all - 2 * block}) {
    const planner::MemoryUse tight = use(1, beside - units::Bytes(lacking));
    EXPECT_TRUE(tight.fits()) << lacking;
    EXPECT_EQ(bytes_of(tight, MemoryCategory::kWeights), all - lacking);
    // Gradients that are summed stay.
    const planner::MemoryUse sums = use(2, total - units::Bytes(lacking));
    EXPECT_TRUE(sums.fits()) << lacking;
    EXPECT_EQ(bytes_of(sums, MemoryCategory::kWeights), all - lacking);
    EXPECT_EQ(bytes_of(sums, MemoryCategory::kGradients), all);
  }
  // The layer at work and the next one have to be there.
  EXPECT_FALSE(use(1, beside - units::Bytes(all - 2 * block + 1)).fits());
}

TEST(Estimate, WhatIsFrozenIsWeightsOfADevice) {
  std::vector<shape::ParameterSpec> parameters = shape::find_family("gpt2").parameters(kModel);
  shape::mark_trained({.frozen = {"*_embedding.*", "blocks.[01].*"}, .factors = {}}, parameters);
  const shape::Layout layout = shape::cut_into_subgroups(parameters, 1000, {});
  const auto all = static_cast<double>(layout.parameter_count());
  const double trained = 12 * 16 * 16 + 13 * 16 + 2 * 16;
  const planner::MemoryUse use =
      estimate_device(kModel, {.batch = 1}, layout, {}, {}, 1, 1, units::gigabytes(1));
  EXPECT_EQ(bytes_of(use, MemoryCategory::kWeights), 4 * all);
  EXPECT_EQ(bytes_of(use, MemoryCategory::kGradients), 4 * trained);
  const planner::MemoryUse small =
      estimate_device(kModel, {.batch = 1}, layout, {}, {}, 1, 1, use.total() - units::Bytes(1));
  // Two buffers of the largest depth that is trained are more than all of it.
  EXPECT_EQ(bytes_of(small, MemoryCategory::kGradients), 4 * trained);
  // The largest subgroup that is updated, not the largest: the token table's.
  Index largest = 0;
  for (const auto& subgroup : layout.subgroups)
    if (subgroup.trained) largest = std::max(largest, subgroup.count);
  EXPECT_EQ(largest_update_bytes(layout, {}, {}, false, 1), 12 * largest);
}

TEST(Estimate, AnUpdateHoldsStatesAndWhatComesFromTheHost) {
  const shape::Layout layout = layout_of(kModel);
  Index largest = 0;
  for (const auto& subgroup : layout.subgroups) largest = std::max(largest, subgroup.count);
  const tensor::ParameterTypes bf16{.working = DType::kBF16, .gradient = DType::kBF16};
  const auto bytes = [&](const tensor::ParameterTypes& types, bool model_on_host, Index ranks) {
    return largest_update_bytes(layout, types, {}, model_on_host, ranks) / largest;
  };
  EXPECT_EQ(bytes(bf16, false, 1), 12);
  EXPECT_EQ(bytes(bf16, true, 1), 12 + 2 + 2);
  EXPECT_EQ(bytes({}, true, 1), 12 + 4);
  EXPECT_EQ(bytes(bf16, false, 2), 12 + 4);
  EXPECT_EQ(bytes(bf16, true, 2), 12 + 4 + 2);
  EXPECT_EQ(bytes({}, true, 2), 12 + 4);
}

// Two ways to the same sizes, and to what train_gpt registers: the planner knows models by their
// shapes only. It leaves out tokens (4 bytes) and losses, and takes the micro-batch for one lane.
TEST(Estimate, IsThePlannersAndWhatIsRegistered) {
  for (const char* name : {"gpt2-124m", "gpt2-1.5b"})
    for (const bool recompute : {false, true})
      for (const DType type : {DType::kBF16, DType::kF32}) {
        SCOPED_TRACE(fmt::format("{}, recompute {}, {}", name, recompute, name_of(type)));
        const shape::ModelConfig model = models::find_preset(name);
        const shape::Layout layout = layout_of(model, 5'000'000);
        const shape::RunShape shape{
            .batch = 4,
            .activations = shape::recompute_if(recompute),
            .logits_rows = shape::LaneWorkers{.on_gpus = true}.logits_rows(),
            .type = type};
        planner::PlanSettings settings;
        planner::set_recompute(settings, recompute);
        settings.fp32 = type == DType::kF32;
        const planner::MemoryUse planned = gpu_peak(
            shape::model_of(name, model), {.tokens = static_cast<double>(4 * model.context)},
            settings, units::gigabytes(1000));
        const tensor::ParameterTypes types{.working = type, .gradient = type};
        const planner::MemoryUse use =
            estimate_device(model, shape, layout, types, {}, 1, 1, units::gigabytes(1000));
        for (const MemoryCategory category :
             {MemoryCategory::kWeights, MemoryCategory::kGradients, MemoryCategory::kLogits})
          EXPECT_EQ(bytes_of(use, category), bytes_of(planned, category)) << name_of(category);
        EXPECT_NEAR(bytes_of(planned, MemoryCategory::kActivations) /
                        bytes_of(use, MemoryCategory::kActivations),
                    1, 1e-4);
        const rt::MemoryBytes registered =
            estimate_training(model, shape, layout, types, {}, {}, 1);
        EXPECT_NEAR(bytes_of(planned, MemoryCategory::kActivations) +
                        bytes_of(planned, MemoryCategory::kLogits),
                    static_cast<double>(registered[MemoryCategory::kActivations]), 1);
      }
}

TEST(Estimate, RefusesSizesWhoseSumsWouldOverflow) {
  constexpr Index kHuge = Index{1} << 62;
  const shape::ModelConfig model{"gpt2", 48, 1600, 25, 1024, 50257};
  EXPECT_NO_THROW(expect_countable(model, {.batch = 4096, .lanes = 64}));
  for (Index shape::ModelConfig::*size :
       {&shape::ModelConfig::layers, &shape::ModelConfig::width, &shape::ModelConfig::context,
        &shape::ModelConfig::vocabulary}) {
    shape::ModelConfig changed = model;
    changed.*size = kHuge;
    EXPECT_THAT([&] { expect_countable(changed, {}); },
                fails_with({"model.width", std::to_string(kHuge)}));
  }
  EXPECT_THAT([&] { expect_countable(model, {.batch = kHuge}); },
              fails_with({"train.batch", std::to_string(kHuge)}));
  // Never more rows than tokens, however many are asked for.
  EXPECT_NO_THROW(expect_countable(model, {.batch = 1, .lanes = 1, .logits_rows = kHuge}));
}

}  // namespace
}  // namespace dos::fit::estimate_test
