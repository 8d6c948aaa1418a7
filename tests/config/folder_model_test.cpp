// SPDX-License-Identifier: Apache-2.0
#include "config/folder_model.hpp"

#include <gmock/gmock.h>

#include "config/config_file.hpp"
#include "fails_with.hpp"
#include "models/family.hpp"

namespace dos::config::folder_model_test {
namespace {

shape::ModelConfig gpt2() {
  return {.architecture = "gpt2",
          .layers = 3,
          .width = 24,
          .heads = 4,
          .context = 40,
          .vocabulary = 300};
}

/// As a run begins that takes a folder's model.
TrainConfig given(const std::vector<std::string>& assignments) {
  TrainConfig config;
  config.model.preset.clear();
  for (const std::string& assignment : assignments) set_from_text(assignment, config);
  return config;
}

shape::ModelConfig taken(const shape::ModelConfig& model,
                         const std::vector<std::string>& assignments) {
  TrainConfig config = given(assignments);
  take_folder_model(model, "folder", config);
  config.data.path = "data";
  config.validate();
  return config.resolve_model(/*dataset_vocabulary=*/257);
}

TEST(FolderModel, KeysSayTheFoldersModel) {
  EXPECT_EQ(taken(gpt2(), {}), gpt2());
}

/// No member is that of the preset which stands for the family.
shape::ModelConfig llama() {
  return {.architecture = "llama",
          .layers = 3,
          .width = 24,
          .heads = 6,
          .context = 40,
          .vocabulary = 300,
          .kv_heads = 2,
          .ffn = 50,
          .head_dim = 10,
          .rope_theta = 5e5,
          .rope_scaling = {.factor = 8,
                           .low_freq_factor = 2,
                           .high_freq_factor = 5,
                           .original_context = 32},
          .norm_epsilon = 1e-6,
          .window = 7,
          .tied_head = true,
          .qkv_bias = true,
          .qk_norm = true};
}

TEST(FolderModel, KeysSayAllOfLlama) {
  EXPECT_EQ(taken(llama(), {}), llama());
  shape::ModelConfig plain = llama();
  plain.rope_scaling = {};
  plain.window = 0;
  plain.tied_head = plain.qkv_bias = plain.qk_norm = false;
  EXPECT_EQ(taken(plain, {}), plain);
}

/// Every trainable preset's model, whatever it leaves to its family, is said by keys alone.
TEST(FolderModel, KeysSayEveryPreset) {
  for (const std::string& name : models::preset_names()) {
    TrainConfig config;
    config.model = keys_of_model(models::find_preset(name));
    const shape::ModelConfig expected = models::find_preset(name);
    shape::ModelConfig found = config.resolve_model(0);
    EXPECT_EQ(found.head_size(), expected.head_size()) << name;
    EXPECT_EQ(found.key_heads(), expected.key_heads()) << name;
    found.head_dim = expected.head_dim;
    found.kv_heads = expected.kv_heads;
    EXPECT_EQ(found, expected) << name;
  }
}

TEST(FolderModel, ModelsMayBeTrainedWithLess) {
  shape::ModelConfig expected = llama();
  expected.context = 33;
  EXPECT_EQ(taken(llama(), {"model.context=33"}), expected);
  expected = gpt2();
  expected.context = 20;
  expected.positions = 40;
  EXPECT_EQ(taken(gpt2(), {"model.context=20"}), expected);
  EXPECT_EQ(taken(gpt2(), {"model.context=20", "model.positions=40"}), expected) << "said again";
  for (const char* assignment : {"model.context=41", "model.kv_heads=3", "model.rope_factor=1",
                                 "model.tied_head=off", "model.window=-1", "model.norm_eps=1e-5"})
    EXPECT_THAT([&] { taken(llama(), {assignment}); },
                test::fails_with({"but the folder's model has", "leave it out"}))
        << assignment;
}

TEST(FolderModel, TakesWhatSaysTheSame) {
  EXPECT_EQ(taken(gpt2(), {"model.layers=3", "model.context=40", "model.vocab=300"}), gpt2());
}

TEST(FolderModel, NamesWhatSaysOtherwise) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"model.layers=4", "folder: model.layers = 4, but the folder's model has 3: leave it out"},
      {"model.width=48", "model.width = 48, but"},
      {"model.heads=2", "model.heads = 2, but"},
      {"model.vocab=301", "model.vocab = 301, but"},
      {"model.positions=20", "model.positions = 20, but the folder's model has 40"},
      {"model.context=80", "model.context = 80, but"},
      {"model.qk_norm=on", "model.qk_norm = \"on\", but"},
      {"model.window=7", "model.window = 7, but"},
      {"model.preset=gpt2-124m", "model.preset = gpt2-124m has model.layers = 12, but"},
  };
  for (const auto& each : cases)
    EXPECT_THAT([&] { taken(gpt2(), {each.first}); }, test::fails_with({each.second}))
        << each.first;
}

TEST(FolderModel, RefusesAFamilyThatCannotBeTrained) {
  EXPECT_THAT([] { keys_of_model({.architecture = "toy"}); }, test::fails_with({"'toy'"}));
}

}  // namespace
}  // namespace dos::config::folder_model_test
