// SPDX-License-Identifier: Apache-2.0
#include "train/estimate.hpp"

#include "train/failing.hpp"
#include "train/tiny_trainer.hpp"

namespace dos::train {
namespace {

using test::fails_with;
using testing::HasSubstr;

rt::MemoryBytes some_bytes() {
  rt::MemoryBytes bytes;
  bytes[rt::MemoryCategory::kParameters] = 1 << 20;
  bytes[rt::MemoryCategory::kActivations] = 3 << 20;
  return bytes;
}

// Work space alone is allocated later, by StarPU, one for each worker.
TEST(Estimate, IsWhatATrainerRegisters) {
  const test::ScratchDirectory scratch;
  TrainConfig config = test::tiny_config(test::write_tiny_dataset(scratch));
  const models::ModelConfig model = config.resolve_model(0);
  for (const auto& [precision, gradients] :
       {std::pair{"fp32", "fp32"}, {"bf16", "fp32"}, {"bf16", "bf16"}})
    for (const Index run_ahead : {1, 3})
      for (const double clip : {0.0, 1.0}) {
        config.train.precision = precision;
        config.train.gradient_precision = gradients;
        config.train.recompute = clip == 0;
        config.train.run_ahead = run_ahead;
        config.optim.clip = clip;
        rt::Session session({.scheduler = "", .cpu_workers = 2});
        const auto trainer = test::make_trainer(session, config, scratch / "out");
        const rt::MemoryBytes estimated = estimate_training(
            model, config.run_shape(session.workers()), trainer->parameters().layout(),
            config.parameter_types(), config.optimizer(), session.workers(), run_ahead);
        const rt::MemoryBytes counted = session.memory().now();
        for (const rt::MemoryCategory category : rt::kMemoryCategories)
          EXPECT_EQ(estimated[category], counted[category]) << rt::name_of(category);
      }
}

TEST(Estimate, TheTableHasALineACategory) {
  EXPECT_EQ(memory_table(some_bytes(), 17),
            "  parameters            1.00 MiB\n"
            "  gradients                  0 B\n"
            "  optimizer states           0 B\n"
            "  activations           3.00 MiB\n"
            "  workspace                  0 B\n"
            "  data                       0 B\n"
            "  total                 4.00 MiB\n"
            "  available                 17 B");
}

TEST(Estimate, RefusesWhatDoesNotFit) {
  const rt::MemoryBytes bytes = some_bytes();
  EXPECT_NO_THROW(expect_fits(bytes, 4 << 20));
  try {
    expect_fits(bytes, (4 << 20) - 1);
    FAIL() << "one byte too few";
  } catch (const Error& error) {
    const std::string message = error.what();
    const auto end = message.find('\n');
    EXPECT_THAT(message.substr(0, end), HasSubstr("the run needs 4.00 MiB of host memory"));
    EXPECT_THAT(message.substr(0, end), HasSubstr("train.batch"));
    EXPECT_EQ(message.substr(end + 1), memory_table(bytes, (4 << 20) - 1));
  }
}

TEST(Estimate, RefusesSizesWhoseSumsWouldOverflow) {
  constexpr Index kHuge = Index{1} << 62;
  const models::ModelConfig model{"gpt2", 48, 1600, 25, 1024, 50257};
  EXPECT_NO_THROW(expect_countable(model, {.batch = 4096, .lanes = 64}));
  for (Index models::ModelConfig::*size :
       {&models::ModelConfig::layers, &models::ModelConfig::width, &models::ModelConfig::context,
        &models::ModelConfig::vocabulary}) {
    models::ModelConfig changed = model;
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
}  // namespace dos::train
