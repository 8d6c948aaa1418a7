// SPDX-License-Identifier: Apache-2.0
// Models with adapters: what is trained, what stays, what it takes.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <ostream>

#include "fit/estimate.hpp"
#include "models/demand.hpp"
#include "models/training_run.hpp"
#include "train/step_results.hpp"

namespace dos::test::lora_test {
namespace {

shape::ModelConfig gpt2() {
  shape::ModelConfig model{"gpt2", 3, 24, 3, 7, 61};
  model.adapters = {.rank = 3, .alpha = 7, .targets = {}};
  for (const char* module : {"attention.qkv", "attention.projection", "mlp.up", "mlp.down"})
    model.adapters.targets[module] = {0};
  return model;
}

shape::ModelConfig llama() {
  shape::ModelConfig model{"llama", 3, 16, 4, 7, 61, /*kv_heads=*/2, /*ffn=*/21};
  model.qkv_bias = model.qk_norm = model.tied_head = true;
  model.adapters = {.rank = 2,
                    .alpha = 4,
                    .by_root = true,
                    .targets = {{"attention.qkv", {0, 2}}, {"mlp.gate_up", {1}}}};
  return model;
}

struct Case {
  const char* name;
  shape::ModelConfig model;
  bool recompute = false;
  tensor::ParameterTypes types = {};
  std::vector<std::string> frozen = {};
  Index first_trained = 1;
};
void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name;
}

const Case kCases[] = {
    {"gpt2", gpt2()},
    {"gpt2_recompute", gpt2(), true},
    {"gpt2_bf16", gpt2(), true, {DType::kBF16, DType::kBF16}},
    {"llama", llama()},
    {"llama_bf16", llama(), false, {DType::kBF16, DType::kF32}},
    {"llama_last_block", llama(), true, {}, {"blocks.[01].*"}, 3},
    {"llama_second_matrices", llama(), true, {}, {"*.lora_a.weight"}},
};

class Lora : public ::testing::TestWithParam<Case> {
 protected:
  [[nodiscard]] static RunOptions options(bool recompute = GetParam().recompute, Index lanes = 2,
                                          Index subgroup_params = 200) {
    const Case& c = GetParam();
    return {.model = c.model,
            .shape = {.batch = 3,
                      .lanes = lanes,
                      .activations = shape::recompute_if(recompute),
                      .logits_rows = 5},
            .subgroup_params = subgroup_params,
            .optimizer = {.clip = 1},
            .decay = {},
            .types = c.types,
            .trained = {.frozen = c.frozen, .factors = {}}};
  }
  [[nodiscard]] static std::vector<std::int32_t> tokens() {
    return random_tokens(GetParam().model, 6);
  }
};

INSTANTIATE_TEST_SUITE_P(Models, Lora, ::testing::ValuesIn(kCases),
                         [](const auto& test) { return std::string(test.param.name); });

TEST_P(Lora, NewAdaptersAddNothing) {
  TrainingRun run(options());
  RunOptions plain = options();
  plain.model.adapters = {};
  plain.trained = {};
  TrainingRun base(plain);
  run.initialise(3);
  base.initialise(3);
  EXPECT_EQ(run.evaluate(tokens()), base.evaluate(tokens()));
}

// As PEFT's: uniform in +-1/sqrt(in), whose variance is a third of its square, and zeros. The mean
// square of n such numbers has a standard error of sqrt(4/45) / sqrt(n) squares of the bound.
TEST_P(Lora, NewAdaptersAreUniformAndZero) {
  TrainingRun run(options());
  run.initialise(3);
  Index pairs = 0;
  for (const shape::PlacedParameter& parameter : run.layout().parameters) {
    if (!parameter.spec.is_adapter) continue;
    const std::vector<float> values = run.value(parameter.spec.name);
    if (parameter.spec.name.ends_with(".lora_b.weight")) {
      ++pairs;
      EXPECT_EQ(values, std::vector<float>(values.size(), 0.0F)) << parameter.spec.name;
      continue;
    }
    const double bound = 1 / std::sqrt(static_cast<double>(parameter.spec.columns));
    double squares = 0;
    double largest = 0;
    for (const float value : values) {
      squares += static_cast<double>(value) * static_cast<double>(value);
      largest = std::max(largest, std::abs(static_cast<double>(value)));
    }
    const auto count = static_cast<double>(values.size());
    EXPECT_LE(largest, bound) << parameter.spec.name;
    EXPECT_GT(largest, 0.8 * bound) << parameter.spec.name;
    EXPECT_NEAR(squares / count, bound * bound / 3, 5 * 0.3 * bound * bound / std::sqrt(count))
        << parameter.spec.name;
  }
  EXPECT_EQ(pairs, GetParam().model.layers * std::ssize(GetParam().model.adapters.targets));
}

TEST_P(Lora, OnlyAdaptersChange) {
  TrainingRun run(options());
  EXPECT_EQ(run.layout().first_trained_depth(), GetParam().first_trained);
  run.initialise(3);
  std::map<std::string, std::vector<float>> before;
  for (const shape::PlacedParameter& parameter : run.layout().parameters)
    before[parameter.spec.name] = run.value(parameter.spec.name);
  std::vector<double> losses;
  for (Index step = 1; step <= 4; ++step) {
    losses.push_back(run.gradients(tokens()));
    EXPECT_GT(run.update(step, 1e-2), 0);
  }
  EXPECT_LT(losses.back(), losses.front());
  for (const shape::PlacedParameter& parameter : run.layout().parameters) {
    const std::string& name = parameter.spec.name;
    EXPECT_LE(parameter.spec.trained, parameter.spec.is_adapter) << name;
    EXPECT_EQ(run.value(name) == before[name], !parameter.spec.trained) << name;
  }
}

// Each is a part of the same sum: losses and gradients of activations are what they were.
TEST_P(Lora, RecomputationChangesNoBit) {
  TrainingRun kept(options(/*recompute=*/false));
  TrainingRun again(options(/*recompute=*/true));
  for (TrainingRun* run : {&kept, &again}) {
    run->initialise(3);
    for (Index step = 1; step <= 2; ++step) {
      run->gradients(tokens());
      run->update(step, 1e-2);
    }
  }
  for (const shape::PlacedParameter& parameter : kept.layout().parameters)
    EXPECT_EQ(kept.value(parameter.spec.name), again.value(parameter.spec.name))
        << parameter.spec.name;
}

TEST_P(Lora, TakesTheMemoryAndTheTasksThatAreEstimated) {
  const RunOptions given = options();
  TrainingRun run(given);
  const shape::Layout layout = given.layout();
  const rt::MemoryBytes counted = run.session().memory().now();
  rt::MemoryBytes estimated =
      fit::estimate_training(given.model, run.options().shape, layout, given.types, given.optimizer,
                             {.all = run.session().workers()}, /*run_ahead=*/1);
  // The run has two results of its own instead of a trainer's.
  estimated[MemoryCategory::kData] -= train::StepResults::bytes(1);
  estimated[MemoryCategory::kActivations] += 2 * 8;
  for (const MemoryCategory category : kBufferCategories)
    EXPECT_EQ(counted[category], estimated[category]) << name_of(category);
  run.initialise(3);
  const std::vector<std::int32_t> two = tokens();
  Index tasks = 0;
  run.submitter().set_observer(
      {.before = [&](const rt::TaskCall& /*call*/) { ++tasks; }, .after = {}});
  run.gradients(std::span(two).first(two.size() / 2));
  run.submitter().set_observer({});
  // One of the tasks is the mean loss.
  const Index most = models::counts(given.model, run.options().shape, layout).tasks;
  EXPECT_LE(tasks - 1, most);
  EXPECT_GT(tasks, most / 2);
}

}  // namespace
}  // namespace dos::test::lora_test
