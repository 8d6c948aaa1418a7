// SPDX-License-Identifier: Apache-2.0
// The LLaMA family against itself: gradients by differences, bits, counts, a whole training.
#include <gtest/gtest.h>

#include <cmath>
#include <ostream>

#include "base/random.hpp"
#include "fit/estimate.hpp"
#include "generate/generator.hpp"
#include "models/demand.hpp"
#include "models/gradient_check.hpp"
#include "train/checkpoint.hpp"
#include "train/run_info.hpp"
#include "train/tiny_trainer.hpp"

namespace dos::test::llama_family_test {
namespace {

/// An odd vocabulary and context, heads that share keys, all choices and none.
shape::ModelConfig plain_model() {
  return {"llama", 3, 16, 4, 7, 61, /*kv_heads=*/2, /*ffn=*/21};
}
shape::ModelConfig chosen_model() {
  shape::ModelConfig model = plain_model();
  model.head_dim = 6;
  model.rope_theta = 100;
  model.rope_scaling = {
      .factor = 4, .low_freq_factor = 1, .high_freq_factor = 4, .original_context = 32};
  model.norm_epsilon = 1e-6;
  model.window = 3;
  model.tied_head = model.qkv_bias = model.qk_norm = true;
  return model;
}

struct Named {
  const char* name;
  shape::ModelConfig model;
  float table;  ///< deviation of the token table where differences are taken
};
void PrintTo(const Named& named, std::ostream* out) {
  *out << named.name;
}

class LlamaFamily : public ::testing::TestWithParam<Named> {
 protected:
  [[nodiscard]] static TrainingRun make_run(bool recompute, tensor::ParameterTypes types = {},
                                            Index workers = 2) {
    return TrainingRun(
        {.model = GetParam().model,
         .shape = {.batch = 3, .lanes = 2, .activations = shape::recompute_if(recompute)},
         .subgroup_params = 200,
         .workers = workers,
         .optimizer = {},
         .decay = {},
         .types = types});
  }

  [[nodiscard]] static std::vector<std::int32_t> tokens() {
    return random_tokens(GetParam().model, 3);
  }

  /// Everything after three steps.
  [[nodiscard]] static std::vector<float> train(TrainingRun& run) {
    run.initialise(3);
    for (Index step = 1; step <= 3; ++step) {
      run.gradients(tokens());
      run.update(step, 1e-2);
    }
    return run.everything();
  }

  ScratchDirectory folder_;
};

INSTANTIATE_TEST_SUITE_P(Models, LlamaFamily,
                         ::testing::Values(Named{"plain", plain_model(), 1.0F},
                                           Named{"chosen", chosen_model(), 0.5F}),
                         [](const auto& test) { return std::string(test.param.name); });

TEST_P(LlamaFamily, HasTheGradientsOfItsLoss) {
  TrainingRun run = make_run(/*recompute=*/false);
  // The initial values make a loss that hardly depends on blocks, and norms of a stream that short
  // bend too much for differences.
  for (const shape::PlacedParameter& parameter : run.layout().parameters) {
    const Philox random(stream_of(parameter.spec.name));
    std::vector<float> values(static_cast<std::size_t>(parameter.spec.count()));
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = parameter.spec.init.constant +
                  (parameter.spec.is_table ? GetParam().table : 0.2F) * random.normal(i, 0);
    run.parameters().values().write(parameter, values);
  }
  GradientCheck(run, tokens()).expect_gradients();
}

TEST_P(LlamaFamily, RecomputesToTheSameBitsWithAnyNumberOfWorkers) {
  TrainingRun kept = make_run(/*recompute=*/false);
  const std::vector<float> expected = train(kept);
  for (const Index workers : {1, 3}) {
    TrainingRun run = make_run(/*recompute=*/true, {}, workers);
    EXPECT_EQ(train(run), expected) << workers << " workers";
  }
}

TEST_P(LlamaFamily, HasTheTasksThatAreCounted) {
  for (const bool recompute : {false, true}) {
    TrainingRun run = make_run(recompute);
    run.initialise(3);
    run.session().wait_all();
    Index tasks = 0;
    run.submitter().set_observer({.before = [&](const rt::TaskCall&) { ++tasks; }, .after = {}});
    run.gradients(tokens());
    // One task more takes the loss.
    EXPECT_EQ(tasks - 1, models::counts(GetParam().model, run.options().shape, run.layout()).tasks);
  }
}

/// BF16 keeps 8 bits: losses of 4 that were rounded a few times on the way differ by a few 2^-8 of
/// what they depend on; far less than what a wrong formula does.
TEST_P(LlamaFamily, HasNearlyTheSameLossInBf16) {
  TrainingRun full = make_run(/*recompute=*/false);
  TrainingRun half = make_run(/*recompute=*/false, {.working = DType::kBF16});
  for (TrainingRun* run : {&full, &half}) run->initialise(3);
  for (Index step = 1; step <= 10; ++step) {
    const double loss = full.gradients(tokens());
    EXPECT_NEAR(half.gradients(tokens()), loss, 0x1p-8 * loss) << "step " << step;
    full.update(step, 1e-2);
    half.update(step, 1e-2);
  }
}

TEST_P(LlamaFamily, TrainsSavesGoesOnAndGeneratesAsEstimated) {
  shape::ModelConfig model = GetParam().model;
  model.vocabulary = 257;
  config::TrainConfig config = tiny_config(write_tiny_dataset(folder_));
  model.context = config.model.context != 0 ? config.model.context : 8;
  config.train.steps = 200;
  config.train.lanes = 1;
  config.optim.lr = 1e-2;
  const auto trainer_of = [&](rt::Session& session, const config::TrainConfig& chosen) {
    platform::blas::use_one_thread();
    std::filesystem::create_directories(folder_ / "run");
    return std::make_unique<train::Trainer>(
        session, train::TrainerInputs{.run = train::make_run(chosen, model),
                                      .out = folder_ / "run",
                                      .sources = data::open_sources(chosen.data_sources()),
                                      .tokenizer = nullptr,
                                      .quiet = true});
  };
  double first = 0;
  {
    rt::Session session({.scheduler = "lws", .cpu_workers = 2});
    config.train.stop_after = 2;
    const auto trainer = trainer_of(session, config);
    const rt::MemoryBytes estimate = fit::estimate_training(
        model, config.run_shape({}), trainer->parameters().layout(), config.parameter_types(),
        config.optimizer(), {.all = 2}, config.train.run_ahead);
    EXPECT_EQ(session.memory().now().total(), estimate.total());
    trainer->start_fresh();
    first = *trainer->run().loss;
  }
  rt::Session session({.scheduler = "lws", .cpu_workers = 2});
  config.train.stop_after = 0;
  const auto trainer = trainer_of(session, config);
  const train::ModelSource source(folder_ / "run", "last");
  EXPECT_EQ(source.model(), model);
  EXPECT_NO_THROW(inference::expect_room(
      source, generate::Generator::use(source, /*prompt=*/1, /*count=*/5), ""));
  trainer->resume(*source.checkpoint());
  const train::TrainResult result = trainer->run();
  EXPECT_EQ(result.step, 200);
  EXPECT_LT(*result.loss, first / 2);
}

/// Sizes that nobody chose.
shape::ModelConfig random_model(std::uint64_t number) {
  const Philox random(57);
  const auto up_to = [&](std::uint64_t which, double most) {
    return 1 + static_cast<Index>(random.uniform(number, which) * most);
  };
  shape::ModelConfig model{"llama", up_to(0, 3),  4 * up_to(1, 8),
                           1,       up_to(2, 40), 1 + up_to(3, 90)};
  model.kv_heads = up_to(4, 3);
  model.heads = model.kv_heads * up_to(5, 3);
  model.ffn = up_to(6, 50);
  // Half of the heads are as large as those of models, 32 to 256, of which some have 80 and 96.
  constexpr Index kReal[] = {80, 96, 256};
  model.head_dim = number % 4 == 3   ? kReal[number / 4 % 3]
                   : number % 4 == 2 ? 2 * (15 + up_to(7, 113))
                                     : 2 * up_to(7, 20);
  model.window = number % 2 == 0 ? 0 : up_to(8, 1.2 * static_cast<double>(model.context));
  model.rope_theta = 10 + 1e4 * random.uniform(number, 9);
  model.rope_scaling.factor = number % 3 == 0 ? 1 : 8;
  model.rope_scaling.original_context = 16;
  model.tied_head = random.uniform(number, 10) < 0.5;
  model.qkv_bias = random.uniform(number, 11) < 0.5;
  model.qk_norm = random.uniform(number, 12) < 0.5;
  return model;
}

TEST(LlamaFamilySizes, AnyAreTrainedToTheSameBitsHoweverTheyAreCut) {
  for (std::uint64_t number = 0; number < 16; ++number) {
    const shape::ModelConfig model = random_model(number);
    SCOPED_TRACE(train::to_json(model).dump());
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(3 * (model.context + 1)));
    for (std::size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = static_cast<std::int32_t>(7 * i % static_cast<std::size_t>(model.vocabulary));
    std::vector<float> first;
    for (const bool recompute : {false, true}) {
      TrainingRun run({.model = model,
                       .shape = {.batch = 3,
                                 .lanes = 2,
                                 .activations = shape::recompute_if(recompute),
                                 .logits_rows = 5},
                       .subgroup_params = 4 * model.width + 2 * model.qkv_width(),
                       .optimizer = {},
                       .decay = {}});
      // Beside the model's, the run has a loss and a norm.
      const rt::MemoryBytes expected =
          models::buffers(model, run.options().shape, {.all = run.options().workers});
      EXPECT_EQ(run.session().memory().now()[MemoryCategory::kActivations],
                expected[MemoryCategory::kActivations] + 2 * size_of(DType::kF64));
      run.initialise(5);
      const double loss = run.evaluate(tokens);
      EXPECT_EQ(run.gradients(tokens), loss);
      EXPECT_NEAR(loss, std::log(static_cast<double>(model.vocabulary)), 0.5);
      EXPECT_TRUE(std::isfinite(run.update(1, 1e-2)));
      const std::vector<float> all = run.everything();
      if (first.empty()) first = all;
      EXPECT_EQ(all, first);
    }
  }
}

}  // namespace
}  // namespace dos::test::llama_family_test
