// SPDX-License-Identifier: Apache-2.0
#include "config/train_config.hpp"

#include <fmt/ranges.h>

#include <limits>
#include <set>

#include "fails_with.hpp"

namespace dos::config::train_config_test {
namespace {

using test::fails_with;

TrainConfig valid() {
  TrainConfig config;
  config.data.path = "data/x";
  return config;
}

template <class T>
T& value_of(TrainConfig& config, const std::string& name) {
  for (const Key& key : keys_of(config))
    if (key.name == name) return *std::get<T*>(key.value);
  throw std::out_of_range(name);
}

// Scripts and checkpoints rely on these: a change needs an entry in the change log.
TEST(Config, TheKeysAreFrozen) {
  const std::string frozen =
      "model.preset model.layers model.width model.heads model.context model.vocab "
      "model.positions model.kv_heads model.ffn model.head_dim model.rope_theta model.rope_factor "
      "model.rope_low_freq model.rope_high_freq model.rope_context model.norm_eps "
      "model.window model.tied_head model.qkv_bias model.qk_norm lora.rank lora.alpha "
      "lora.targets lora.rslora data.path data.sources train.steps train.stop_after "
      "train.batch train.accumulate train.lanes train.workers train.opencl_devices "
      "train.cuda_devices train.gpu_memory train.host_memory train.fit train.stall_timeout_s "
      "train.seed "
      "train.precision train.gradient_precision train.products train.attention "
      "train.recompute train.activations train.activation_disks train.logits_rows "
      "train.run_ahead train.validate_every train.validate_batches train.checkpoint_every "
      "train.mtbf_hours train.checkpoint_memory train.keep train.keep_every_hours "
      "train.checkpoint_local "
      "train.checkpoint_copy_every train.checkpoint_copy_rate train.log_every optim.rule "
      "optim.lr optim.final_lr_ratio optim.warmup optim.schedule optim.weight_decay "
      "optim.decay_vectors optim.decay_embeddings optim.no_decay optim.freeze "
      "optim.lr_factors optim.beta1 optim.beta2 optim.momentum optim.eps optim.clip "
      "optim.speculate "
      "sched.subgroup_params sched.stride sched.share sched.window sched.resident "
      "sched.fallback sched.disks sched.host_memory dist.zero dist.weights dist.gpu_messages "
      "dist.timeout_s";
  TrainConfig config;
  std::vector<std::string> names;
  for (const Key& key : keys_of(config)) names.push_back(key.name);
  EXPECT_EQ(fmt::format("{}", fmt::join(names, " ")), frozen);
}

TEST(Config, EveryKeyHasAValueOfItsOwnAndAHelpLine) {
  TrainConfig config;
  std::set<const void*> places;
  for (const Key& key : keys_of(config)) {
    places.insert(std::visit([](auto* value) -> const void* { return value; }, key.value));
    EXPECT_FALSE(key.help.empty()) << key.name;
    EXPECT_EQ(key.help.find('\n'), std::string::npos) << key.name;
  }
  EXPECT_EQ(places.size(), keys_of(config).size());
}

TEST(Config, DefaultsAreValid) {
  EXPECT_NO_THROW(valid().validate());
}

TEST(Config, NamesTheKeyAndTheValueOutOfRange) {
  struct Case {
    const char* key;
    Index value;
    bool good;
  };
  const Case cases[] = {
      {"model.layers", -1, false},
      {"model.layers", 0, true},
      {"model.width", -1, false},
      {"model.heads", -1, false},
      {"model.context", -1, false},
      {"model.vocab", -1, false},
      {"train.steps", 0, false},
      {"train.steps", 1, true},
      {"train.stop_after", -1, false},
      {"train.batch", 0, false},
      {"train.accumulate", 0, false},
      {"train.lanes", -1, false},
      {"train.lanes", 1'001, false},
      {"train.workers", -1, false},
      {"train.opencl_devices", -2, false},
      {"train.opencl_devices", -1, true},
      {"train.cuda_devices", -2, false},
      {"train.cuda_devices", -1, true},
      {"sched.stride", -1, false},
      {"sched.window", -1, false},
      {"train.seed", -1, false},
      {"train.seed", 0, true},
      {"train.logits_rows", -1, false},
      {"train.logits_rows", 0, true},
      {"train.run_ahead", 0, false},
      {"train.run_ahead", 1'001, false},
      {"train.validate_every", -1, false},
      {"train.validate_every", 0, true},
      {"train.validate_batches", 0, false},
      {"train.checkpoint_every", -2, false},
      {"train.checkpoint_every", -1, true},
      {"train.keep", 0, false},
      {"train.checkpoint_copy_every", 0, false},
      {"train.log_every", 0, false},
      {"optim.warmup", -1, false},
      {"sched.subgroup_params", 0, false},
      {"dist.zero", 0, false},
      {"dist.zero", 3, true},
      {"dist.zero", 4, false},
  };
  for (const Case& c : cases) {
    TrainConfig config = valid();
    value_of<Index>(config, c.key) = c.value;
    if (c.good)
      EXPECT_NO_THROW(config.validate()) << c.key;
    else
      EXPECT_THAT([&] { config.validate(); }, fails_with({c.key, std::to_string(c.value)}));
  }
}

TEST(Config, NamesTheNumberOutOfRange) {
  struct Case {
    const char* key;
    double value;
  };
  const Case cases[] = {
      {"optim.lr", 0},
      {"optim.lr", -1},
      {"optim.final_lr_ratio", -0.1},
      {"optim.beta1", 1},
      {"optim.beta1", -1},
      {"optim.final_lr_ratio", 1.1},
      {"optim.beta2", 1},
      {"optim.eps", 0},
      {"optim.weight_decay", -1},
      {"optim.clip", -1},
      {"optim.momentum", 1},
      {"sched.share", -0.5},
      {"sched.share", 1.5},
      {"dist.timeout_s", 0.5},
      {"train.stall_timeout_s", 0.5},
      {"train.mtbf_hours", 0},
      {"train.checkpoint_memory", -1},
  };
  for (const Case& c : cases) {
    TrainConfig config = valid();
    value_of<double>(config, c.key) = c.value;
    EXPECT_THAT([&] { config.validate(); }, fails_with({c.key, fmt::format("got {}", c.value)}));
  }
  for (const char* key : {"optim.lr", "optim.final_lr_ratio", "optim.weight_decay", "optim.beta1",
                          "optim.beta2", "optim.momentum", "optim.eps", "optim.clip"})
    // 1e39 is finite in double precision alone.
    for (const double value : {std::numeric_limits<double>::quiet_NaN(),
                               std::numeric_limits<double>::infinity(), -1e39}) {
      TrainConfig config = valid();
      value_of<double>(config, key) = value;
      EXPECT_THAT([&] { config.validate(); }, fails_with({key, "finite"}));
    }
}

TEST(Config, RefusesMoreSequencesThanCanBeCounted) {
  TrainConfig config = valid();
  config.train.steps = 1'000'000;
  config.train.batch = config.train.accumulate = 10'000;
  config.validate();
  config.train.steps = 1'000'001;
  EXPECT_THAT(
      [&] { config.validate(); },
      fails_with({"train.steps x train.batch x train.accumulate = 1000001 x 10000 x 10000: ",
                  "more than 1e+14 sequences"}));
  config = valid();
  config.train.validate_batches = std::numeric_limits<Index>::max();
  EXPECT_THAT([&] { config.validate(); }, fails_with({"train.validate_batches x train.batch"}));
}

TEST(Config, NamesTheUnknownWord) {
  TrainConfig config;
  EXPECT_THAT([&] { config.validate(); }, fails_with({"data.path is not set", "prepare_data"}));
  config.data.sources = "a:1,b";
  EXPECT_THAT([&] { config.validate(); }, fails_with({"data.sources", "'b' is not PREFIX:WEIGHT"}));
  config = valid();
  config.data.sources = "a:1";
  EXPECT_THAT([&] { config.validate(); },
              fails_with({"data.path = data/x and data.sources = a:1"}));
  for (const char* key :
       {"train.precision", "train.gradient_precision", "optim.rule", "optim.schedule"}) {
    config = valid();
    value_of<std::string>(config, key) = "foo";
    EXPECT_THAT([&] { config.validate(); }, fails_with({key, "'foo'", "known: "}));
  }
  config = valid();
  config.model.preset = "foo";
  EXPECT_THAT([&] { static_cast<void>(config.resolve_model(0)); },
              fails_with({"model.preset 'foo'", "tiny", "gpt2-1.5b"}));
}

TEST(Config, PrecisionsAreTypes) {
  TrainConfig config = valid();
  EXPECT_EQ(config.parameter_types().working, DType::kF32);
  EXPECT_EQ(config.run_shape({}).type, DType::kF32);
  config.train.gradient_precision = "bf16";
  EXPECT_THAT([&] { config.validate(); },
              fails_with({"train.gradient_precision = 'bf16' needs train.precision = 'bf16'"}));
  config.train.precision = "bf16";
  config.validate();
  EXPECT_EQ(config.parameter_types().working, DType::kBF16);
  EXPECT_EQ(config.parameter_types().gradient, DType::kBF16);
  EXPECT_EQ(config.run_shape({}).type, DType::kBF16);
}

TEST(Config, OverridesThePreset) {
  TrainConfig config = valid();
  config.model.preset = "gpt2-124m";
  EXPECT_EQ(config.resolve_model(0), (shape::ModelConfig{"gpt2", 12, 768, 12, 1024, 50257}));
  config.model = {
      .preset = "gpt2-124m", .layers = 1, .width = 8, .heads = 2, .context = 4, .vocab = 0};
  EXPECT_EQ(config.resolve_model(0), (shape::ModelConfig{"gpt2", 1, 8, 2, 4, 50257}));
}

TEST(Config, ATableOfPositionsMayBeLongerThanTheContext) {
  TrainConfig config = valid();
  config.model = {.preset = "gpt2-124m", .context = 512, .positions = 1024};
  const shape::ModelConfig longer = config.resolve_model(0);
  EXPECT_EQ(longer.positions, 1024);
  EXPECT_EQ(longer.context, 512);
  const auto rows = [](const shape::ModelConfig& model) {
    for (const shape::ParameterSpec& spec : shape::find_family("gpt2").parameters(model))
      if (spec.name == "position_embedding.weight") return spec.rows;
    return Index{0};
  };
  EXPECT_EQ(rows(longer), 1024);
  config.model.positions = 512;
  EXPECT_EQ(config.resolve_model(0).positions, 0) << "as many";
  EXPECT_EQ(rows(config.resolve_model(0)), 512);
  config.model.positions = 511;
  EXPECT_THAT([&] { (void)config.resolve_model(0); },
              test::fails_with({"model.context = 512", "has 511 positions", "lower it"}));
  config.model = {.preset = "llama-tiny", .positions = 4096};
  EXPECT_THAT([&] { (void)config.resolve_model(0); },
              test::fails_with({"model.positions = 4096", "family llama", "leave it 0"}));
}

TEST(Config, OverridesEveryChoiceOfTheLlamaFamily) {
  TrainConfig config = valid();
  config.model.preset = "mistral-7b";
  const shape::ModelConfig mistral = config.resolve_model(0);
  EXPECT_EQ(mistral.window, 4096);
  config.model.kv_heads = 16;
  config.model.ffn = 24;
  config.model.head_dim = 6;
  config.model.rope_theta = 500;
  config.model.rope_factor = 8;
  config.model.rope_low_freq = 2;
  config.model.rope_high_freq = 5;
  config.model.rope_context = 64;
  config.model.norm_eps = 1e-4;
  config.model.window = 9;
  config.model.tied_head = config.model.qkv_bias = config.model.qk_norm = "on";
  shape::ModelConfig expected = mistral;
  expected.kv_heads = 16;
  expected.ffn = 24;
  expected.head_dim = 6;
  expected.rope_theta = 500;
  expected.rope_scaling = {
      .factor = 8, .low_freq_factor = 2, .high_freq_factor = 5, .original_context = 64};
  expected.norm_epsilon = 1e-4;
  expected.window = 9;
  expected.tied_head = expected.qkv_bias = expected.qk_norm = true;
  EXPECT_EQ(config.resolve_model(0), expected);
  // What a preset has can be taken away.
  config.model = {.preset = "mistral-7b", .window = -1};
  EXPECT_EQ(config.resolve_model(0).window, 0);
  config.model = {.preset = "qwen2.5-0.5b", .tied_head = "off", .qkv_bias = "off"};
  EXPECT_FALSE(config.resolve_model(0).tied_head);
  EXPECT_FALSE(config.resolve_model(0).qkv_bias);
  config.model = {.preset = "qwen3-0.6b", .qk_norm = "off"};
  EXPECT_FALSE(config.resolve_model(0).qk_norm);
}

TEST(Config, TakesTheVocabularyOfTheKeyElseOfTheDataElseOfThePreset) {
  TrainConfig config = valid();
  config.model.preset = "tiny";
  EXPECT_EQ(config.resolve_model(0).vocabulary, 257);
  EXPECT_EQ(config.resolve_model(100).vocabulary, 100);
  config.model.vocab = 128;
  EXPECT_EQ(config.resolve_model(100).vocabulary, 128);
  EXPECT_EQ(config.resolve_model(128).vocabulary, 128);
  EXPECT_THAT([&] { static_cast<void>(config.resolve_model(129)); },
              fails_with({"model.vocab = 128", "129"}));
}

TEST(Config, RowsOfLogitsAreThoseOfTheWorkersUnlessSaid) {
  TrainConfig config = valid();
  EXPECT_EQ(config.run_shape({}).logits_rows, 512);
  EXPECT_EQ(config.run_shape({.on_gpus = true}).logits_rows, 2048);
  config.train.logits_rows = 7;
  EXPECT_EQ(config.run_shape({.on_gpus = true}).logits_rows, 7);
}

TEST(Config, ALaneAWorkerButNotMoreThanSequences) {
  TrainConfig config = valid();
  config.train.batch = 3;
  EXPECT_EQ(config.run_shape({}).lanes, 1);
  EXPECT_EQ(config.run_shape({.count = 64}).lanes, 3);
  config.train.lanes = 2;
  EXPECT_EQ(config.run_shape({.count = 64}).lanes, 2);
  config.train.lanes = 4;
  EXPECT_THAT([&] { static_cast<void>(config.run_shape({.count = 2})); },
              fails_with({"train.lanes = 4", "train.batch = 3"}));
}

TEST(Config, TheLastStep) {
  TrainConfig config;
  config.train.steps = 10;
  EXPECT_EQ(config.last_step(), 10);
  config.train.stop_after = 3;
  EXPECT_EQ(config.last_step(), 3);
  config.train.stop_after = 11;
  EXPECT_EQ(config.last_step(), 10);
}

TEST(Config, PatternsWithoutDecay) {
  TrainConfig config;
  EXPECT_TRUE(config.decay_groups().excluded.empty());
  config.optim.no_decay = ",*.up.weight,,head";
  EXPECT_EQ(config.decay_groups().excluded, (std::vector<std::string>{"*.up.weight", "head"}));
}

TEST(Config, WhatIsTrained) {
  TrainConfig config = valid();
  EXPECT_TRUE(config.trained_groups().frozen.empty());
  config.optim.freeze = "a.*,,b";
  config.optim.lr_factors = "c:0.5";
  config.validate();
  const shape::TrainedGroups groups = config.trained_groups();
  EXPECT_EQ(groups.frozen, (std::vector<std::string>{"a.*", "b"}));
  ASSERT_EQ(groups.factors.size(), 1U);
  EXPECT_EQ(groups.factors.front().pattern, "c");
  EXPECT_EQ(groups.factors.front().factor, 0.5);
  config.optim.lr_factors = "c=0.5";
  EXPECT_THAT([&] { config.validate(); }, fails_with({"optim.lr_factors", "'c=0.5'"}));
}

TEST(Config, JsonRoundTrip) {
  TrainConfig config = valid();
  config.model.preset = "a \"b\"\n";
  config.train.recompute = true;
  config.train.seed = std::numeric_limits<Index>::max();
  config.optim.lr = 0.1 + 0.2;
  TrainConfig copy;
  from_json(nlohmann::json::parse(to_json(config).dump()), "x", copy);
  EXPECT_EQ(to_json(copy), to_json(config));
  EXPECT_EQ(copy.optim.lr, config.optim.lr);
  EXPECT_EQ(copy.train.seed, config.train.seed);
}

TEST(Config, RefusesForeignJsonAndChangesNothing) {
  using nlohmann::json;
  const std::pair<json, std::string> cases[] = {
      {nullptr, "no JSON object"},
      {{{"train", 3}}, "section 'train'"},
      {{{"train", {{"batch", 4}, {"colour", 1}}}}, "'train.colour' is not known"},
      {{{"train", {{"batch", 1.5}}}}, "'train.batch' has a value of the wrong type"},
      {{{"train", {{"batch", "4"}}}}, "'train.batch'"},
      {{{"train", {{"recompute", 1}}}}, "'train.recompute'"},
      {{{"optim", {{"lr", true}}}}, "'optim.lr'"},
      {{{"data", {{"path", 1}}}}, "'data.path'"},
  };
  for (const auto& refused : cases) {
    TrainConfig config;
    EXPECT_THAT([&] { from_json(refused.first, "there", config); },
                fails_with({"there: ", refused.second}));
    EXPECT_EQ(to_json(config), to_json(TrainConfig{}));
  }
  TrainConfig config;
  from_json({{"optim", {{"lr", 1}}}}, "x", config);
  EXPECT_EQ(config.optim.lr, 1.0);
}

}  // namespace
}  // namespace dos::config::train_config_test
