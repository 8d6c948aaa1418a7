// SPDX-License-Identifier: Apache-2.0
#include "models/registry.hpp"

#include <gmock/gmock.h>

#include <limits>
#include <set>

#include "base/error.hpp"

namespace dos::models {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;

Index parameter_count(const ModelConfig& config) {
  Index count = 0;
  for (const tensor::ParameterSpec& spec :
       find_architecture(config.architecture).parameters(config))
    count += spec.count();
  return count;
}

// 124,439,808 and so on: the published models, with tied output projection.
TEST(Registry, PresetsHaveThePublishedParameterCounts) {
  EXPECT_EQ(parameter_count(find_preset("gpt2-124m")), 124'439'808);
  EXPECT_EQ(parameter_count(find_preset("gpt2-355m")), 354'823'168);
  EXPECT_EQ(parameter_count(find_preset("gpt2-774m")), 774'030'080);
  EXPECT_EQ(parameter_count(find_preset("gpt2-1.5b")), 1'557'611'200);
  // 24 blocks of 12 w^2 + 13 w, the last norm, 50257 tokens and 2048 positions; w = 2048.
  EXPECT_EQ(parameter_count(find_preset("gpt3-1.3b")), 1'315'723'264);
}

TEST(Registry, EveryPresetIsAModelOfAKnownArchitecture) {
  const std::vector<std::string> names = preset_names();
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
  for (const std::string& name : names) {
    SCOPED_TRACE(name);
    const ModelConfig& config = find_preset(name);
    EXPECT_NO_THROW(config.validate());
    EXPECT_NO_THROW(find_architecture(config.architecture));
    EXPECT_EQ(config.head_size() * config.heads, config.width);
  }
}

TEST(Registry, UnknownPresetNamesTheNearestAndAllKnownOnes) {
  std::vector<::testing::Matcher<std::string>> parts{
      HasSubstr("'gpt2-124'"), HasSubstr("did you mean 'gpt2-124m'?"), Not(HasSubstr("\n"))};
  for (const std::string& name : preset_names()) parts.push_back(HasSubstr(name));
  EXPECT_THAT([] { find_preset("gpt2-124"); }, ThrowsMessage<Error>(::testing::AllOfArray(parts)));
  EXPECT_THAT([] { find_preset(""); },
              ThrowsMessage<Error>(AllOf(HasSubstr("''"), HasSubstr("tiny"))));
}

TEST(Registry, UnknownArchitectureListsTheKnownOnes) {
  EXPECT_THAT([] { find_architecture("gpt3"); },
              ThrowsMessage<Error>(AllOf(HasSubstr("'gpt3'"), HasSubstr("did you mean 'gpt2'?"),
                                         HasSubstr("known: gpt2"))));
  EXPECT_EQ(find_architecture("gpt2").name, std::string("gpt2"));
}

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
}  // namespace dos::models
