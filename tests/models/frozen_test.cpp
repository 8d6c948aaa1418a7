// SPDX-License-Identifier: Apache-2.0
// Models of which only a part is trained: the bits of what is, the tasks and the memory of the
// rest.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <ostream>
#include <set>

#include "fit/estimate.hpp"
#include "models/demand.hpp"
#include "models/training_run.hpp"
#include "train/step_results.hpp"

namespace dos::test::frozen_test {
namespace {

const shape::ModelConfig kGpt2{"gpt2", 3, 24, 3, 7, 61};

shape::ModelConfig llama(bool tied) {
  shape::ModelConfig model{"llama", 3, 16, 4, 7, 61, /*kv_heads=*/2, /*ffn=*/21};
  model.qkv_bias = model.qk_norm = true;
  model.tied_head = tied;
  return model;
}

struct Case {
  const char* name;
  shape::ModelConfig model;
  std::vector<std::string> frozen;
  bool recompute = false;
  tensor::ParameterTypes types = {};
  Index first_trained = 0;  ///< depth
};
void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name;
}

const Case kCases[] = {
    {"no_tables", kGpt2, {"*_embedding.*"}, false, {}, 1},
    {"no_positions", kGpt2, {"position*"}},
    {"tokens_alone", kGpt2, {"blocks.*", "position*", "final*"}},
    {"last_block", kGpt2, {"*_embedding.*", "blocks.[01].*"}, false, {}, 3},
    {"last_norm", kGpt2, {"*_embedding.*", "blocks.*"}, true, {}, 4},
    {"no_middle", kGpt2, {"blocks.1.*"}, true},
    {"matrices_of_mlp",
     kGpt2,
     {"*_embedding.*", "*.bias", "*norm?.weight", "*.attention.*", "final_norm.*"},
     true,
     {},
     1},
    {"bf16", kGpt2, {"*_embedding.*", "blocks.0.*"}, true, {DType::kBF16, DType::kBF16}, 2},
    {"llama_no_norms", llama(true), {"*norm*"}},
    {"llama_last_block", llama(false), {"token*", "blocks.[01].*"}, true, {}, 3},
    {"llama_head_alone", llama(false), {"token*", "blocks.*", "final*"}, false, {}, 4},
    {"llama_tied_bf16",
     llama(true),
     {"token*", "*.head_norm.*"},
     false,
     {DType::kBF16, DType::kF32},
     1},
};

class Frozen : public ::testing::TestWithParam<Case> {
 protected:
  [[nodiscard]] static RunOptions options(bool freezes, float clip = 0) {
    const Case& c = GetParam();
    return {.model = c.model,
            .shape = {.batch = 3,
                      .lanes = 2,
                      .activations = shape::recompute_if(c.recompute),
                      .logits_rows = 5},
            .subgroup_params = 200,
            .optimizer = {.clip = clip},
            .decay = {},
            .types = c.types,
            .trained = {.frozen = freezes ? c.frozen : std::vector<std::string>(), .factors = {}}};
  }
  /// Of two micro-batches.
  [[nodiscard]] static std::vector<std::int32_t> tokens(std::uint64_t step = 0) {
    return random_tokens(GetParam().model, 6, step);
  }
};

INSTANTIATE_TEST_SUITE_P(Models, Frozen, ::testing::ValuesIn(kCases),
                         [](const auto& test) { return std::string(test.param.name); });

// Without clipping nothing of a frozen parameter reaches the others' first update.
TEST_P(Frozen, TheOthersLearnWhatTheyWouldHaveLearnedInTheFirstStep) {
  TrainingRun all(options(false));
  TrainingRun some(options(true));
  all.initialise(3);
  some.initialise(3);
  std::map<std::string, std::vector<float>> before;
  for (const shape::PlacedParameter& parameter : some.layout().parameters)
    before[parameter.spec.name] = some.value(parameter.spec.name);
  EXPECT_EQ(some.gradients(tokens()), all.gradients(tokens()));
  all.update(1, 1e-2);
  some.update(1, 1e-2);
  bool learned = false;
  for (const shape::PlacedParameter& parameter : some.layout().parameters) {
    const std::string& name = parameter.spec.name;
    const std::vector<float> after = some.value(name);
    EXPECT_EQ(some.parameters().gradients().has(parameter.first_subgroup), parameter.spec.trained);
    EXPECT_EQ(some.optimizer().state(0).has(parameter.first_subgroup), parameter.spec.trained);
    if (!parameter.spec.trained) {
      EXPECT_EQ(after, before[name]) << name;
      continue;
    }
    EXPECT_EQ(some.read(some.parameters().gradients(), name),
              all.read(all.parameters().gradients(), name))
        << name;
    EXPECT_EQ(after, all.value(name)) << name;
    learned = learned || after != before[name];
  }
  EXPECT_TRUE(learned);
}

TEST_P(Frozen, FrozenTensorsKeepTheirBits) {
  TrainingRun run(options(true, /*clip=*/1));
  run.initialise(3);
  std::map<std::string, std::vector<float>> before;
  for (const shape::PlacedParameter& parameter : run.layout().parameters)
    before[parameter.spec.name] = run.read(run.parameters().working(), parameter.spec.name);
  for (Index step = 1; step <= 3; ++step) {
    const double loss = run.gradients(tokens(static_cast<std::uint64_t>(step)));
    EXPECT_TRUE(std::isfinite(loss));
    EXPECT_GT(run.update(step, 1e-1), 0);
  }
  for (const shape::PlacedParameter& parameter : run.layout().parameters)
    EXPECT_EQ(
        run.read(run.parameters().working(), parameter.spec.name) == before[parameter.spec.name],
        !parameter.spec.trained)
        << parameter.spec.name;
}

// The norm is that of what is trained.
TEST_P(Frozen, TheNormIsTheOthers) {
  TrainingRun run(options(true, /*clip=*/1));
  run.initialise(3);
  run.gradients(tokens());
  double sum = 0;
  Index count = 0;
  for (const shape::PlacedParameter& parameter : run.layout().parameters) {
    if (!parameter.spec.trained) continue;
    for (const float g : run.read(run.parameters().gradients(), parameter.spec.name))
      sum += static_cast<double>(g) * g;
    count += parameter.spec.count();
  }
  // Each square is rounded to double, and each sum: less than 2 roundings an element.
  EXPECT_NEAR(run.update(1, 0), std::sqrt(sum),
              2 * static_cast<double>(count) * 0x1p-52 * std::sqrt(sum));
}

/// What a micro-batch submits in backward: labels and symbols of its tasks.
struct Submitted {
  std::multiset<std::string> symbols;
  std::set<std::string> labels_of_backward;
  Index tasks = 0;
};

Submitted submitted(TrainingRun& run, std::span<const std::int32_t> tokens) {
  Submitted seen;
  run.submitter().set_observer({.before =
                                    [&](const rt::TaskCall& call) {
                                      ++seen.tasks;
                                      seen.symbols.insert(call.codelet.symbol());
                                      if (run.submitter().tag().phase == rt::Phase::kBackward)
                                        seen.labels_of_backward.insert(call.options.label);
                                    },
                                .after = {}});
  run.gradients(tokens);
  run.submitter().set_observer({});
  return seen;
}

TEST_P(Frozen, BackwardEndsWhereNothingIsTrainedBelow) {
  const Case& c = GetParam();
  TrainingRun run(options(true));
  EXPECT_EQ(run.layout().first_trained_depth(), c.first_trained);
  run.initialise(3);
  const std::vector<std::int32_t> two = tokens();
  const auto one = std::span(two).first(two.size() / 2);
  const Submitted some = submitted(run, one);
  for (Index layer = 0; layer < c.model.layers; ++layer) {
    const bool is_reached = layer + 1 >= c.first_trained;
    EXPECT_EQ(some.labels_of_backward.contains(fmt::format("blocks.{}.attention", layer)),
              is_reached)
        << layer;
  }
  EXPECT_EQ(some.labels_of_backward.contains("embedding"), c.first_trained == 0);
  // One of the tasks is the mean loss.
  EXPECT_LE(some.tasks - 1, models::counts(c.model, run.options().shape, run.layout()).tasks);
}

TEST_P(Frozen, NoTaskMakesAGradientThatNobodyReads) {
  TrainingRun run(options(true));
  run.initialise(3);
  const std::vector<std::int32_t> two = tokens();
  // Buffers of gradients of what is frozen do not exist: a task for one could not be submitted. Of
  // what is trained every piece has one.
  std::set<const rt::Handle*> written;
  run.submitter().set_observer({.before =
                                    [&](const rt::TaskCall& call) {
                                      for (std::size_t i = 0; i < call.buffers.size(); ++i)
                                        if (call.codelet.mode(static_cast<Index>(i)) !=
                                            rt::Mode::kRead)
                                          written.insert(call.buffers[i]);
                                    },
                                .after = {}});
  run.gradients(two);
  run.submitter().set_observer({});
  const auto& subgroups = run.layout().subgroups;
  for (Index i = 0; i < std::ssize(subgroups); ++i) {
    const shape::Subgroup& subgroup = subgroups[static_cast<std::size_t>(i)];
    ASSERT_EQ(run.parameters().gradients().has(i), subgroup.trained) << subgroup.name;
    if (subgroup.trained) {
      EXPECT_TRUE(written.contains(&run.parameters().gradients()[i])) << subgroup.name;
    }
  }
}

TEST_P(Frozen, TakesTheMemoryThatIsEstimated) {
  for (const float clip : {0.0F, 1.0F}) {
    const RunOptions given = options(true, clip);
    TrainingRun run(given);
    const shape::Layout layout = given.layout();
    const rt::MemoryBytes counted = run.session().memory().now();
    rt::MemoryBytes estimated =
        fit::estimate_training(given.model, run.options().shape, layout, given.types,
                               given.optimizer, {.all = run.session().workers()}, /*run_ahead=*/1);
    // The run has two results of its own instead of a trainer's.
    estimated[MemoryCategory::kData] -= train::StepResults::bytes(1);
    estimated[MemoryCategory::kActivations] += 2 * 8;
    for (const MemoryCategory category : kBufferCategories)
      EXPECT_EQ(counted[category], estimated[category]) << name_of(category);
    const Index trained = layout.trained_count();
    EXPECT_LT(trained, layout.parameter_count());
    EXPECT_EQ(counted[MemoryCategory::kGradients], trained * size_of(given.types.gradient));
    RunOptions everything = given;
    everything.trained = {};
    const rt::MemoryBytes whole = TrainingRun(everything).session().memory().now();
    // One set of a block's activations at least is there, two with recomputation.
    const Index most = GetParam().recompute ? 2 : given.model.layers;
    EXPECT_EQ(counted[MemoryCategory::kActivations]<whole[MemoryCategory::kActivations],
                                                    layout.first_trained_depth()>
                  given.model.layers +
              1 - most);
    EXPECT_EQ(counted[MemoryCategory::kStates],
              8 * trained + (clip > 0 ? 12 : 4) + (clip > 0 ? 8 : 20) * layout.trained_subgroups());
  }
}

/// After one step of AdamW without clipping at a learning rate.
std::map<std::string, std::vector<float>> after_a_step(
    const std::vector<shape::TrainedGroups::Factor>& factors, double learning_rate) {
  TrainingRun run({.model = kGpt2,
                   .shape = {.batch = 2, .lanes = 1},
                   .subgroup_params = 200,
                   .optimizer = {.weight_decay = 0.5F, .clip = 0},
                   .decay = {.vectors = true, .excluded = {}},
                   .trained = {.frozen = {}, .factors = factors}});
  run.initialise(3);
  const std::vector<std::int32_t> tokens(static_cast<std::size_t>(2 * (kGpt2.context + 1)), 5);
  run.gradients(tokens);
  run.update(1, learning_rate);
  std::map<std::string, std::vector<float>> values;
  for (const shape::PlacedParameter& parameter : run.layout().parameters)
    values[parameter.spec.name] = run.value(parameter.spec.name);
  return values;
}

TEST(LearningRateFactors, AreLearningRates) {
  constexpr double kRate = 1e-2;
  const auto mixed =
      after_a_step({{"blocks.0.*", 0.5}, {"*.mlp.up.*", 3}, {"final_norm.*", 0}}, kRate);
  const auto whole = after_a_step({}, kRate);
  const auto half = after_a_step({}, 0.5 * kRate);
  const auto three = after_a_step({}, 3 * kRate);
  const auto none = after_a_step({}, 0);
  for (const auto& [name, values] : mixed) {
    const auto& expected = name.starts_with("blocks.0.")                ? half
                           : name.find(".mlp.up.") != std::string::npos ? three
                           : name.starts_with("final_norm.")            ? none
                                                                        : whole;
    EXPECT_EQ(values, expected.at(name)) << name;
    EXPECT_NE(half.at(name), whole.at(name)) << name;
  }
}

}  // namespace
}  // namespace dos::test::frozen_test
