// SPDX-License-Identifier: Apache-2.0
// Models of sizes that nobody chose, against the same models written down in double precision.
// DOS_RANDOM_MODELS and DOS_RANDOM_SEED draw more of them, and others.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <iostream>
#include <map>

#include "base/bf16.hpp"
#include "base/random.hpp"
#include "base/sanitizer.hpp"
#include "models/training_run.hpp"
#include "norms.hpp"
#include "reference/decoder.hpp"
#include "train/run_info.hpp"

namespace dos::test::random_models_test {
namespace {

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

/// Draws of one model, each by its own name.
class Draws {
 public:
  Draws(std::uint64_t seed, std::uint64_t number) : random_(seed), number_(number) {}
  double uniform() { return random_.uniform(number_, next_++); }
  bool coin() { return uniform() < 0.5; }
  Index from(Index least, Index most) {
    return least + static_cast<Index>(uniform() * static_cast<double>(most - least + 1));
  }

 private:
  Philox random_;
  std::uint64_t number_;
  std::uint64_t next_ = 0;
};

/// Heads of 32 to 256 elements; every fourth has 80 or 96.
Index draw_head(Draws& draws, std::uint64_t number) {
  const Index size = 2 * draws.from(16, 128);
  return number % 4 != 1 ? size : (number % 8 == 1 ? 80 : 96);
}

shape::ModelConfig draw_gpt2(Draws& draws, std::uint64_t number) {
  const Index heads = draws.from(1, 2);
  return {"gpt2", draws.from(1, 2), heads * draw_head(draws, number),
          heads,  draws.from(1, 9), 2 * draws.from(8, 40) + 1};
}

shape::ModelConfig draw_llama(Draws& draws, std::uint64_t number) {
  shape::ModelConfig model{"llama", draws.from(1, 2),  draws.from(5, 48),
                           1,       draws.from(1, 12), 2 * draws.from(8, 40) + 1};
  model.kv_heads = draws.from(1, 3);
  model.heads = model.kv_heads * draws.from(1, 3);
  model.ffn = draws.from(3, 70);
  model.head_dim = draw_head(draws, number);
  model.window = draws.coin() ? 0 : draws.from(1, model.context + 2);
  model.rope_theta = 10 + 1e5 * draws.uniform();
  model.rope_scaling.factor = draws.coin() ? 1 : 1 + 10 * draws.uniform();
  model.rope_scaling.original_context = draws.from(8, 64);
  model.norm_epsilon = draws.coin() ? 1e-5 : 1e-6;
  model.tied_head = draws.coin();
  model.qkv_bias = draws.coin();
  model.qk_norm = draws.coin();
  return model;
}

/// Values with which attention is not uniform and gates bend; norms and biases are off 1 and 0.
std::vector<float> draw_values(const shape::ParameterSpec& spec, DType type) {
  const Philox random(stream_of(spec.name));
  const double spread =
      spec.is_table ? 0.7
                    : (spec.is_matrix() ? 1.2 / std::sqrt(static_cast<double>(spec.columns)) : 0.2);
  std::vector<float> values(static_cast<std::size_t>(spec.count()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = spec.init.constant + static_cast<float>(spread) * random.normal(i, 0);
    if (type == DType::kBF16) values[i] = to_float(to_bf16(values[i]));
  }
  return values;
}

/// A drawn model, twice.
class RandomModel {
 public:
  RandomModel(const shape::ModelConfig& model, DType type, Draws& draws)
      : run_({.model = model,
              .shape = {.batch = 2,
                        .lanes = draws.from(1, 2),
                        .activations = shape::recompute_if(draws.coin()),
                        .logits_rows = draws.from(1, 20)},
              .subgroup_params = draws.from(2, 8) * std::max(4 * model.width, model.qkv_width()),
              .optimizer = {},
              .decay = {},
              .types = {.working = type}}),
        reference_(model,
                   [this](const std::string& name) -> const reference::Doubles& {
                     return values_.at(name);
                   }),
        tokens_(random_tokens(model, 2)) {
    for (const shape::PlacedParameter& parameter : run_.layout().parameters) {
      const std::vector<float> values = draw_values(parameter.spec, type);
      values_[parameter.spec.name].assign(values.begin(), values.end());
      run_.parameters().values().write(parameter, values);
    }
    nn::submit_working_parameters(run_.submitter(), run_.parameters());
  }

  /// How far the loss is off, by its size.
  double loss_error() {
    const double expected = reference_.loss(tokens_);
    return std::abs(run_.gradients(tokens_) - expected) / expected;
  }

  /// How far the gradient of the parameter whose gradient is farthest off is, by its size, or a
  /// hundredth of the whole gradient's: along the gradient and a drawn direction. Pre:
  /// loss_error().
  double gradient_error() {
    // Of a gradient that is zero, as that of queries which see one token, there is rounding alone.
    const double least = 0.01 * norm_of(run_.all_gradients());
    double worst = 0;
    for (const shape::PlacedParameter& parameter : run_.layout().parameters) {
      const std::vector<float> gradient =
          run_.read(run_.parameters().gradients(), parameter.spec.name);
      if (norm_of(gradient) == 0) continue;
      const double size = std::max(norm_of(gradient), least);
      const Philox random(stream_of(parameter.spec.name));
      for (std::uint64_t direction = 0; direction < 2; ++direction) {
        reference::Doubles d(gradient.size());
        for (std::size_t i = 0; i < d.size(); ++i)
          d[i] = direction == 0 ? gradient[i] : random.normal(i, direction);
        const double slope = slope_along(parameter.spec.name, d);
        double predicted = 0;
        for (std::size_t i = 0; i < d.size(); ++i) predicted += gradient[i] * d[i];
        worst = std::max(worst, std::abs(predicted - slope) / size);
      }
    }
    return worst;
  }

 private:
  /// Of the reference's loss along `d`, which is made a unit vector. In double precision a step of
  /// 1e-4 leaves 1e-12 of rounding and 1e-8 of the third derivative.
  double slope_along(const std::string& name, reference::Doubles& d) {
    constexpr double kStep = 1e-4;
    double square = 0;
    for (const double x : d) square += x * x;
    for (double& x : d) x /= std::sqrt(square);
    reference::Doubles& values = values_.at(name);
    const reference::Doubles before = values;
    const auto loss_at = [&](double step) {
      for (std::size_t i = 0; i < d.size(); ++i) values[i] = before[i] + step * d[i];
      return reference_.loss(tokens_);
    };
    const double slope = (loss_at(kStep) - loss_at(-kStep)) / (2 * kStep);
    values = before;
    return slope;
  }

  std::map<std::string, reference::Doubles> values_;
  TrainingRun run_;
  reference::Decoder reference_;
  std::vector<std::int32_t> tokens_;
};

// On the way to a gradient and back through two blocks lie about 40 values, each rounded once.
// - FP32: products of up to 16^2 and some terms, whose roundings add up to at most 16 of one.
// - BF16: a rounding is 2^-9 at most, 2^-9 / sqrt(3) in the mean square, and independent of others.
//   Queries and keys of 256 numbers around one make scores of 16: a rounding of either changes a
//   probability by so many times its own size. Four times that for the worst of a hundred
//   gradients.
// A loss is a mean of values that are off by no more.
constexpr double kValues = 40;
constexpr double kScore = 16;
const double kFp32 = kValues * 16 * 0x1p-24;
const double kBf16 = 4 * std::sqrt((kValues + 2 * kScore * kScore) / 3) * 0x1p-9;

struct Precision {
  const char* name;
  DType type;
  double limit;  ///< how far loss and gradients may be off, by their size
};

class RandomModels : public ::testing::TestWithParam<Precision> {};

INSTANTIATE_TEST_SUITE_P(Precisions, RandomModels,
                         ::testing::Values(Precision{"fp32", DType::kF32, kFp32},
                                           Precision{"bf16", DType::kBF16, kBf16}),
                         [](const auto& test) { return std::string(test.param.name); });

TEST_P(RandomModels, HaveTheLossAndGradientsOfTheReference) {
  const std::uint64_t count = from_environment("DOS_RANDOM_MODELS", kIsSanitized ? 2 : 8);
  const std::uint64_t seed = from_environment("DOS_RANDOM_SEED", 1);
  double worst_loss = 0;
  double worst_gradient = 0;
  for (std::uint64_t number = 0; number < count; ++number) {
    Draws draws(seed, number);
    const shape::ModelConfig config =
        number % 4 == 3 ? draw_gpt2(draws, number / 4) : draw_llama(draws, number);
    SCOPED_TRACE(std::to_string(number) + ": " + train::to_json(config).dump());
    RandomModel model(config, GetParam().type, draws);
    const double loss = model.loss_error();
    const double gradient = model.gradient_error();
    EXPECT_LE(loss, GetParam().limit);
    EXPECT_LE(gradient, GetParam().limit);
    worst_loss = std::max(worst_loss, loss);
    worst_gradient = std::max(worst_gradient, gradient);
  }
  std::cout << count << " models: loss off by " << worst_loss << ", gradients by " << worst_gradient
            << '\n';
}

}  // namespace
}  // namespace dos::test::random_models_test
