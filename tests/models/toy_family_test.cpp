// SPDX-License-Identifier: Apache-2.0
// A family that the product does not know: docs/adding/model.md.
#include "models/toy_family.hpp"

#include <gtest/gtest.h>

#include "base/random.hpp"
#include "fit/estimate.hpp"
#include "generate/generator.hpp"
#include "models/demand.hpp"
#include "models/gradient_check.hpp"
#include "planner/phases.hpp"
#include "planner/requests.hpp"
#include "train/checkpoint.hpp"
#include "train/tiny_trainer.hpp"

namespace dos::test::toy_family_test {
namespace {

const shape::ModelConfig kModel{"toy", 3, 16, 2, 8, 257, /*kv_heads=*/0, /*ffn=*/24};

class ToyFamily : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    static const bool is_known = (models::add_family(toy::kFamily), true);
    ASSERT_TRUE(is_known);
  }

  static TrainingRun make_run(bool recompute) {
    return TrainingRun(
        {.model = kModel,
         .shape = {.batch = 3, .lanes = 2, .activations = shape::recompute_if(recompute)},
         .subgroup_params = 600,
         .optimizer = {},
         .decay = {}});
  }

  static std::vector<std::int32_t> tokens() { return random_tokens(kModel, 3); }

  /// Values of all parameters with a deviation of 0.3: the initial ones make a loss that hardly
  /// depends on blocks.
  static void spread(TrainingRun& run) {
    for (const shape::PlacedParameter& parameter : run.layout().parameters) {
      const Philox random(stream_of(parameter.spec.name));
      std::vector<float> values(static_cast<std::size_t>(parameter.spec.count()));
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<float>(parameter.spec.init.constant + 0.3 * random.normal(i, 0));
      run.parameters().values().write(parameter, values);
    }
  }

  ScratchDirectory folder_;
};

TEST_F(ToyFamily, HasTheGradientsOfItsLoss) {
  TrainingRun run = make_run(/*recompute=*/false);
  spread(run);
  GradientCheck(run, tokens()).expect_gradients();
}

// A gradient that nobody overwrites keeps that of the step before.
TEST_F(ToyFamily, GradientsAreOfTheStepAlone) {
  TrainingRun run = make_run(/*recompute=*/false);
  spread(run);
  run.gradients(tokens());
  const std::vector<float> first = run.all_gradients();
  run.gradients(tokens());
  EXPECT_EQ(run.all_gradients(), first);
}

TEST_F(ToyFamily, RecomputesToTheSameBits) {
  std::vector<std::vector<float>> results;
  for (const bool recompute : {false, true}) {
    TrainingRun run = make_run(recompute);
    run.initialise(3);
    for (Index step = 1; step <= 3; ++step) {
      run.gradients(tokens());
      run.update(step, 1e-2);
    }
    results.push_back(run.everything());
  }
  EXPECT_EQ(results[0], results[1]);
}

TEST_F(ToyFamily, HasTheTasksThatAreCounted) {
  for (const bool recompute : {false, true}) {
    TrainingRun run = make_run(recompute);
    run.initialise(3);
    run.session().wait_all();
    Index tasks = 0;
    run.submitter().set_observer({.before = [&](const rt::TaskCall&) { ++tasks; }, .after = {}});
    run.gradients(tokens());
    // One task more takes the loss.
    EXPECT_EQ(tasks - 1, models::counts(kModel, run.options().shape, run.layout()).tasks);
  }
}

TEST_F(ToyFamily, IsPlanned) {
  planner::Request request = test::request("a100-4x", "llama-7b", 4);
  shape::ModelConfig large = kModel;
  large.layers = 20;
  large.width = 4096;
  large.ffn = 16384;
  large.context = 1024;
  request.model = shape::model_of("toy-3b", large);
  const planner::Forecast forecast = planner::forecast(request);
  EXPECT_TRUE(forecast.fits());
  EXPECT_GT(forecast.plan.time.value(), 0);
  // Products of both matrices of a block, and of the head; no table, no attention but what every
  // family is taken to have.
  EXPECT_GT(planner::forward_flops(request.model).value(), 2.0 * 20 * 2 * 4096 * 16384);
}

TEST_F(ToyFamily, TrainsSavesAndGoesOnAsEstimated) {
  config::TrainConfig config = tiny_config(write_tiny_dataset(folder_));
  config.train.steps = 100;
  config.train.lanes = 1;
  config.optim.lr = 3e-2;
  const auto trainer_of = [&](rt::Session& session, const config::TrainConfig& chosen) {
    platform::blas::use_one_thread();
    std::filesystem::create_directories(folder_ / "run");
    return std::make_unique<train::Trainer>(
        session, train::TrainerInputs{.run = train::make_run(chosen, kModel),
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
        kModel, config.run_shape({}), trainer->parameters().layout(), config.parameter_types(),
        config.optimizer(), {.all = 2}, config.train.run_ahead);
    EXPECT_EQ(session.memory().now().total(), estimate.total());
    trainer->start_fresh();
    first = *trainer->run().loss;
  }
  rt::Session session({.scheduler = "lws", .cpu_workers = 2});
  config.train.stop_after = 0;
  const auto trainer = trainer_of(session, config);
  const train::ModelSource source(folder_ / "run", "last");
  EXPECT_EQ(source.model(), kModel);
  EXPECT_NO_THROW(inference::expect_room(
      source, generate::Generator::use(source, /*prompt=*/1, /*count=*/5), ""));
  trainer->resume(*source.checkpoint());
  const train::TrainResult result = trainer->run();
  EXPECT_EQ(result.step, 100);
  EXPECT_LT(*result.loss, first / 2);
}

}  // namespace
}  // namespace dos::test::toy_family_test
