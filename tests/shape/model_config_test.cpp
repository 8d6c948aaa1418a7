// SPDX-License-Identifier: Apache-2.0
#include "shape/model_config.hpp"

#include <gmock/gmock.h>

#include <limits>

#include "base/error.hpp"

namespace dos::shape::model_config_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

struct BadConfig {
  const char* what;
  ModelConfig config;
  const char* message;
};

TEST(ModelConfig, NamesTheFirstValueThatMakesNoModel) {
  const BadConfig cases[] = {
      {"no layers", {"gpt2", 0, 8, 2, 4, 5}, "model.layers must be at least 1, got 0"},
      {"negative width", {"gpt2", 1, -8, 2, 4, 5}, "model.width must be at least 1, got -8"},
      {"no heads", {"gpt2", 1, 8, 0, 4, 5}, "model.heads must be at least 1, got 0"},
      {"no context", {"gpt2", 1, 8, 2, 0, 5}, "model.context must be at least 1, got 0"},
      {"negative vocabulary", {"gpt2", 1, 8, 2, 4, -5}, "model.vocab must be at least 1, got -5"},
      {"heads that do not divide",
       {"gpt2", 1, 8, 3, 4, 5},
       "model.heads = 3 does not divide model.width = 8"},
      {"more heads than width", {"gpt2", 1, 8, 16, 4, 5}, "does not divide"},
      {"tokens beyond int32",
       {"gpt2", 1, 8, 2, 4, Index{1} << 31},
       "model.vocab = 2147483648 is above 2^31 - 1"},
      {"kv heads that do not divide",
       {"gpt2", 1, 8, 4, 4, 5, 3},
       "model.kv_heads = 3 does not divide model.heads = 4: each serves as many heads; use one "
       "that "
       "does, or 0 for as many"},
      {"negative kv heads", {"gpt2", 1, 8, 4, 4, 5, -4}, "model.kv_heads = -4"},
      {"negative ffn", {"gpt2", 1, 8, 4, 4, 5, 0, -1}, "model.ffn = -1"},
      {"a base that turns nothing",
       {.layers = 1, .width = 8, .heads = 2, .context = 4, .vocabulary = 5, .rope_theta = 1},
       "model.rope_theta = 1 "},
      {"a factor below 1",
       {.layers = 1,
        .width = 8,
        .heads = 2,
        .context = 4,
        .vocabulary = 5,
        .rope_scaling = {.factor = 0.5}},
       "model.rope_factor = 0.5"},
      {"bounds that cross",
       {.layers = 1,
        .width = 8,
        .heads = 2,
        .context = 4,
        .vocabulary = 5,
        .rope_scaling = {.factor = 8, .low_freq_factor = 4, .high_freq_factor = 4}},
       "model.rope_low_freq = 4 and model.rope_high_freq = 4"},
      {"no epsilon",
       {.layers = 1, .width = 8, .heads = 2, .context = 4, .vocabulary = 5, .norm_epsilon = 0},
       "model.norm_eps = 0"},
      {"an epsilon that single precision takes for 0",
       {.layers = 1, .width = 8, .heads = 2, .context = 4, .vocabulary = 5, .norm_epsilon = 1e-60},
       "model.norm_eps = 1e-60"},
      {"a negative window",
       {.layers = 1, .width = 8, .heads = 2, .context = 4, .vocabulary = 5, .window = -2},
       "model.window = -2"},
      {"a negative head",
       {.layers = 1, .width = 8, .heads = 2, .context = 4, .vocabulary = 5, .head_dim = -2},
       "model.head_dim = -2"},
      {"all", {}, "model.layers"},
  };
  for (const BadConfig& c : cases) {
    SCOPED_TRACE(c.what);
    EXPECT_THAT([&] { c.config.validate(); }, ThrowsMessage<Error>(HasSubstr(c.message)));
  }
}

TEST(ModelConfig, SmallestAndLargestValuesAreModels) {
  EXPECT_NO_THROW((ModelConfig{"gpt2", 1, 1, 1, 1, 1}.validate()));
  EXPECT_NO_THROW(
      (ModelConfig{"gpt2", 1, 8, 8, 1, std::numeric_limits<std::int32_t>::max()}.validate()));
}

struct BadShape {
  RunShape shape;
  const char* message;
};

TEST(RunShape, NamesTheFirstValueOutOfRange) {
  const BadShape cases[] = {
      {{.batch = 0}, "train.batch must be at least 1, got 0"},
      {{.batch = 2, .lanes = 0}, "train.lanes must be at least 1, got 0"},
      {{.batch = 2, .lanes = 3}, "train.lanes = 3 is above train.batch = 2"},
      {{.batch = 2, .lanes = 2, .logits_rows = -1}, "train.logits_rows must be at least 1"},
  };
  for (const BadShape& c : cases)
    EXPECT_THAT([&] { c.shape.validate(); }, ThrowsMessage<Error>(HasSubstr(c.message)));
}

TEST(RunShape, LanesShareTheSequencesAsEvenlyAsPossible) {
  for (Index batch = 1; batch <= 9; ++batch)
    for (Index lanes = 1; lanes <= batch; ++lanes) {
      const RunShape shape{.batch = batch, .lanes = lanes};
      Index sum = 0;
      for (Index lane = 0; lane < lanes; ++lane) {
        sum += shape.lane_sequences(lane);
        EXPECT_GE(shape.lane_sequences(lane), 1);
        EXPECT_LE(shape.lane_sequences(0) - shape.lane_sequences(lane), 1);
      }
      EXPECT_EQ(sum, batch);
    }
}

TEST(ModelConfig, HasSizesWhoseProductsCanBeCounted) {
  const ModelConfig good{"gpt2", 10'000, Index{1} << 20, 16, Index{1} << 28, 1000};
  EXPECT_NO_THROW(good.validate());
  const auto expect_refused = [&](Index ModelConfig::*size, Index value, const char* key) {
    ModelConfig config = good;
    config.*size = value;
    EXPECT_THAT([&] { config.validate(); },
                ThrowsMessage<Error>(AllOf(HasSubstr(key), HasSubstr(std::to_string(value)))));
  };
  for (const Index value : {Index{10'001}, Index{1} << 62, Index{0}, Index{-1}})
    expect_refused(&ModelConfig::layers, value, "model.layers");
  for (const Index value : {(Index{1} << 20) + 16, Index{1} << 62}) {
    expect_refused(&ModelConfig::width, value, "model.width");
    expect_refused(&ModelConfig::heads, value, "model.heads");
  }
  expect_refused(&ModelConfig::context, Index{1} << 62, "model.context");
  expect_refused(&ModelConfig::vocabulary, Index{1} << 31, "model.vocab");
}

}  // namespace
}  // namespace dos::shape::model_config_test
