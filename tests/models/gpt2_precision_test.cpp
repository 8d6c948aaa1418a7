// SPDX-License-Identifier: Apache-2.0
// Training in BF16 beside training in FP32 (docs/precision.md).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/bf16.hpp"
#include "base/random.hpp"
#include "models/training_run.hpp"
#include "norms.hpp"

namespace dos::test::gpt2_precision_test {
namespace {

const shape::ModelConfig kModel{"gpt2", 2, 32, 2, 16, 29};
constexpr Index kBatch = 4;
constexpr tensor::ParameterTypes kFp32{};
constexpr tensor::ParameterTypes kMixed{.working = DType::kBF16, .gradient = DType::kF32};
constexpr tensor::ParameterTypes kBf16{.working = DType::kBF16, .gradient = DType::kBF16};

RunOptions options_of(const tensor::ParameterTypes& types) {
  return {.model = kModel,
          .shape = {.batch = kBatch, .lanes = 2},
          .subgroup_params = 2000,
          .workers = 2,
          .scheduler = "lws",
          .optimizer = {},
          .decay = {},
          .types = types};
}

/// Sequences in which four of five tokens follow from the one before, two micro-batches of them.
std::vector<std::int32_t> batch_of(Index step) {
  const Philox random(3);
  const Index row = kModel.context + 1;
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(2 * kBatch * row));
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const double u = random.uniform(i, static_cast<std::uint64_t>(2 * step));
    const double v = random.uniform(i, static_cast<std::uint64_t>(2 * step + 1));
    const bool free = static_cast<Index>(i) % row == 0 || u < 0.2;
    tokens[i] = static_cast<std::int32_t>(
        free ? static_cast<Index>(v * static_cast<double>(kModel.vocabulary))
             : (5 * tokens[i - 1] + 7) % kModel.vocabulary);
  }
  return tokens;
}

// Rounding to BF16 is off by 2^-8 at most and, spread evenly, by 2^-8 / sqrt(3) = 0.0023 in the
// mean square. The longest way of a value through forward and backward of two blocks is rounded
// about 60 times: per block 8 activations and as many of their gradients, the 4 matrices in both
// directions and the norms' scales, then embedding, last norm, logits and theirs. Independent
// errors add up to sqrt(60) * 0.0023 = 0.018 of the gradient's length; twice that is the limit, and
// a tenth of it must be there, or nothing was rounded. BF16 gradients add some roundings more.
TEST(Gpt2Precision, GradientsDifferByTheRoundingOfActivations) {
  const std::vector<std::int32_t> tokens = batch_of(1);
  TrainingRun exact(options_of(kFp32));
  exact.initialise(7);
  const double loss = exact.gradients(tokens);
  const std::vector<float> expected = exact.all_gradients();
  const double length = norm_of(expected);
  for (const auto& types : {kMixed, kBf16}) {
    TrainingRun run(options_of(types));
    run.initialise(7);
    // Logits after initialisation are below 1: their error is the loss's, whatever its sign.
    EXPECT_NEAR(run.gradients(tokens), loss, 0.036);
    const double error = distance(run.all_gradients(), expected) / length;
    EXPECT_LT(error, 0.036);
    EXPECT_GT(error, 0.0036);
  }
}

TEST(Gpt2Precision, WorkingParametersAreTheRoundedValuesAtAnyTime) {
  for (const auto& types : {kMixed, kBf16}) {
    TrainingRun run(options_of(types));
    run.initialise(7);
    for (Index step = 0; step <= 3; ++step) {
      if (step > 0) {
        run.gradients(batch_of(step));
        run.update(step, 1e-3);
      }
      Index rounded = 0;
      for (const shape::PlacedParameter& parameter : run.layout().parameters) {
        const auto values = run.read(run.parameters().values(), parameter.spec.name);
        const auto working = run.read(run.parameters().working(), parameter.spec.name);
        for (std::size_t i = 0; i < values.size(); ++i) {
          ASSERT_EQ(working[i], to_float(to_bf16(values[i]))) << parameter.spec.name << " " << i;
          rounded += working[i] == values[i] ? 0 : 1;
        }
      }
      EXPECT_GT(rounded, run.layout().parameter_count() / 2);
    }
  }
}

constexpr Index kSteps = 500;
constexpr Index kWindow = 50;
constexpr Index kWindows = kSteps / kWindow;

/// Mean loss of each window of steps.
std::vector<double> curve_of(const tensor::ParameterTypes& types) {
  TrainingRun run(options_of(types));
  run.initialise(7);
  std::vector<double> means(kWindows);
  for (Index step = 1; step <= kSteps; ++step) {
    means[static_cast<std::size_t>((step - 1) / kWindow)] +=
        run.gradients(batch_of(step)) / static_cast<double>(kWindow);
    run.update(step, 2e-3 * std::min(1.0, static_cast<double>(step) / 20));
  }
  return means;
}

// How far the mean loss of a window of 50 steps may be from that of FP32. The way of a value to its
// logit is rounded about 30 times: 30 independent errors of 0.0023 are 0.0126 of the logits'
// spread, 3 at most here, and move a token's loss by 0.038, to first order up or down, to second
// order by half the square, 0.0007, always up. Over the window's 6400 tokens the first averages out
// to 0.038 / sqrt(6400) = 0.0005, three of which are allowed. That gradients are rounded too
// changes the way of the parameters, not where it leads: nothing is added for it.
constexpr double kBand = 0.0007 + 3 * 0.0005;

TEST(Gpt2Precision, LossesOf500StepsStayInTheBand) {
  const std::vector<double> fp32 = curve_of(kFp32);
  // It learns: from ln 29 = 3.37 to near the 1.2 nats of one free token in five.
  EXPECT_GT(fp32.front(), 2.0);
  EXPECT_LT(fp32.back(), 1.6);
  for (const auto& types : {kMixed, kBf16}) {
    const std::vector<double> bf16 = curve_of(types);
    for (std::size_t i = 0; i < bf16.size(); ++i) {
      RecordProperty(std::string(name_of(types.gradient)) + std::to_string(i),
                     std::to_string(bf16[i] - fp32[i]));
      EXPECT_NEAR(bf16[i], fp32[i], kBand) << "window " << i;
      EXPECT_NE(bf16[i], fp32[i]);
    }
  }
}

}  // namespace
}  // namespace dos::test::gpt2_precision_test
