// SPDX-License-Identifier: Apache-2.0
#include "hf/config_json.hpp"

#include <gmock/gmock.h>

#include "fails_with.hpp"
#include "hf/folder.hpp"
#include "json_mutations.hpp"

namespace dos::hf::config_json_test {
namespace {

using nlohmann::json;
using test::fails_with;
using test::tiny_hf_config;

shape::ModelConfig parsed(const json& config) {
  return parse_config(config.dump(), "/m/config.json");
}

/// The tiny model of a kind with changed keys.
json changed(const std::string& type, const json& keys) {
  json config = tiny_hf_config(type);
  config.update(keys);
  return config;
}

TEST(ConfigJson, ReadsGpt2) {
  const shape::ModelConfig expected{
      .architecture = "gpt2", .layers = 2, .width = 8, .heads = 2, .context = 16, .vocabulary = 11};
  EXPECT_EQ(parsed(tiny_hf_config("gpt2")), expected);
  // As the first GPT-2 was published.
  EXPECT_EQ(parsed(changed("gpt2", {{"activation_function", "gelu_new"},
                                    {"architectures", {"GPT2LMHeadModel"}},
                                    {"attn_pdrop", 0.1},
                                    {"bos_token_id", 10},
                                    {"n_ctx", 16},
                                    {"n_inner", nullptr},
                                    {"layer_norm_epsilon", 1e-05},
                                    {"summary_type", "cls_index"},
                                    {"task_specific_params", {{"text-generation", {}}}}})),
            expected);
}

TEST(ConfigJson, ReadsLlama) {
  const shape::ModelConfig expected{.architecture = "llama",
                                    .layers = 2,
                                    .width = 8,
                                    .heads = 4,
                                    .context = 16,
                                    .vocabulary = 11,
                                    .kv_heads = 2,
                                    .ffn = 12,
                                    .head_dim = 2,
                                    .norm_epsilon = 1e-5};
  EXPECT_EQ(parsed(tiny_hf_config("llama")), expected);
}

/// What transformers takes for keys that are left out, as its classes say.
TEST(ConfigJson, TakesEachKindsDefaults) {
  const auto without = [](const std::string& type, const char* key) {
    json config = tiny_hf_config(type);
    config.erase(key);
    return config;
  };
  for (const char* type : {"llama", "mistral", "qwen2", "qwen3"}) {
    EXPECT_EQ(parsed(without(type, "rms_norm_eps")).norm_epsilon, 1e-6) << type;
    EXPECT_FALSE(parsed(without(type, "tie_word_embeddings")).tied_head) << type;
    EXPECT_EQ(parsed(tiny_hf_config(type)).rope_theta, 10000) << type;
    EXPECT_EQ(parsed(changed(type, {{"num_key_value_heads", nullptr}})).kv_heads, 4) << type;
  }
  EXPECT_EQ(parsed(without("llama", "num_key_value_heads")).kv_heads, 4);
  json heads = without("mistral", "num_key_value_heads");
  heads.update({{"num_attention_heads", 8}, {"hidden_size", 16}});
  EXPECT_EQ(parsed(heads).kv_heads, 8);
  for (const char* type : {"qwen2", "qwen3"})
    EXPECT_THAT([&] { parsed(without(type, "num_key_value_heads")); },
                fails_with({"/m/config.json: model.kv_heads = 32 does not divide"}));
  EXPECT_EQ(parsed(without("mistral", "sliding_window")).window, 4096);
  EXPECT_EQ(parsed(without("qwen3", "head_dim")).head_dim, 128);
  EXPECT_EQ(parsed(changed("mistral", {{"sliding_window", nullptr}})).window, 0);
  EXPECT_TRUE(parsed(tiny_hf_config("qwen2")).qkv_bias);
  EXPECT_TRUE(parsed(tiny_hf_config("qwen3")).qk_norm);
}

TEST(ConfigJson, ReadsWindowsOfAllBlocksOrNone) {
  const json used{{"use_sliding_window", true}, {"sliding_window", 6}};
  const auto with = [&](const json& keys) {
    json config = changed("qwen2", used);
    config.update(keys);
    return config;
  };
  EXPECT_EQ(parsed(with({{"max_window_layers", 0}})).window, 6);
  EXPECT_EQ(parsed(with({{"max_window_layers", 2}})).window, 0);
  EXPECT_EQ(parsed(with(json::object())).window, 0);  // from block 28 on
  EXPECT_EQ(parsed(changed("qwen2", {{"sliding_window", 6}})).window, 0);
  const json full{"full_attention", "full_attention"};
  const json sliding{"sliding_attention", "sliding_attention"};
  EXPECT_EQ(parsed(with({{"layer_types", sliding}})).window, 6);
  EXPECT_EQ(parsed(with({{"layer_types", full}})).window, 0);
  EXPECT_THAT(
      [&] {
        parsed(with({{"max_window_layers", 1}}));
      },
      fails_with({"field 'max_window_layers'", "some blocks a window"}));
  EXPECT_THAT(
      [&] {
        parsed(with({{"layer_types", {"full_attention", "sliding_attention"}}}));
      },
      fails_with({"field 'layer_types'", "some blocks a window"}));
  EXPECT_THAT(
      [&] {
        parsed(with({{"layer_types", {"full_attention"}}}));
      },
      fails_with({"field 'layer_types' has 1 entries, but num_hidden_layers is 2"}));
  EXPECT_THAT(
      [&] {
        parsed(changed("qwen2", {{"layer_types", sliding}}));
      },
      fails_with({"use_sliding_window is false"}));
}

TEST(ConfigJson, ReadsOldAndNewRotaryKeys) {
  const json scaling{{"factor", 8.0},
                     {"low_freq_factor", 1.0},
                     {"high_freq_factor", 4.0},
                     {"original_max_position_embeddings", 8192}};
  json old = scaling;
  old["type"] = "llama3";
  json recent = scaling;
  recent["rope_type"] = "llama3";
  json inside = recent;
  inside["rope_theta"] = 500000.0;
  const shape::RopeScaling expected{
      .factor = 8, .low_freq_factor = 1, .high_freq_factor = 4, .original_context = 8192};
  for (const json& keys : {json{{"rope_theta", 500000.0}, {"rope_scaling", old}},
                           json{{"rope_theta", 500000}, {"rope_scaling", recent}},
                           json{{"rope_parameters", inside}}}) {
    const shape::ModelConfig model = parsed(changed("llama", keys));
    EXPECT_EQ(model.rope_theta, 500000) << keys;
    EXPECT_EQ(model.rope_scaling, expected) << keys;
  }
  const json plain{{"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 1e6}}}};
  EXPECT_EQ(parsed(changed("llama", plain)).rope_theta, 1e6);
  EXPECT_EQ(parsed(changed("llama", plain)).rope_scaling, shape::RopeScaling{});
}

struct Refusal {
  const char* type;
  json keys;
  std::vector<std::string> parts;
};

const std::vector<Refusal>& refusals() {
  static const std::vector<Refusal> list{
      {"bert",
       {{"model_type", "bert"}},
       {"field 'model_type' is 'bert'", "known: gpt2, llama, mistral, qwen2, qwen3"}},
      {"llama", {{"model_type", "lama"}}, {"'lama' (did you mean 'llama'?)"}},
      {"llama", {{"model_type", 3}}, {"field 'model_type' must be a string"}},
      {"llama", {{"hidden_size", nullptr}}, {"field 'hidden_size' must be"}},
      {"llama", {{"hidden_size", "8"}}, {"field 'hidden_size' must be"}},
      {"llama", {{"num_hidden_layers", 0}}, {"model.layers must be at least 1, got 0"}},
      {"mistral",
       {{"num_key_value_heads", 0}},
       {"field 'num_key_value_heads' must be at least 1, or null"}},
      {"llama", {{"head_dim", 0}}, {"field 'head_dim' must be at least 1, or null"}},
      {"llama",
       {{"num_key_value_heads", 3}},
       {"model.kv_heads = 3 does not divide model.heads = 4"}},
      {"llama",
       {{"hidden_size", 10}},
       {"num_attention_heads = 4 does not divide hidden_size = 10"}},
      {"llama", {{"hidden_act", "gelu"}}, {"field 'hidden_act' is 'gelu', known: silu, swish"}},
      {"llama", {{"attention_bias", true}}, {"field 'attention_bias' is true, but must be false"}},
      {"qwen3", {{"attention_bias", true}}, {"field 'attention_bias' is true"}},
      {"mistral", {{"attention_bias", true}}, {"field 'attention_bias' is true"}},
      {"llama", {{"use_sliding_window", true}}, {"field 'use_sliding_window' is true"}},
      {"llama", {{"mlp_bias", true}}, {"field 'mlp_bias' is true, but must be false"}},
      {"llama", {{"sliding_window", 4}}, {"field 'sliding_window' is 4"}},
      {"llama", {{"rope_interleaved", true}}, {"field 'rope_interleaved' is true"}},
      {"llama",
       {{"architectures", {"LlamaForSequenceClassification"}}},
       {"field 'architectures[0]' is 'LlamaForSequenceClassification', known: LlamaForCausalLM"}},
      {"llama",
       {{"rope_scaling", {{"type", "linear"}, {"factor", 2.0}}}},
       {"field 'rope_scaling' has the type 'linear', known: default, llama3"}},
      {"llama",
       {{"rope_parameters", {{"rope_type", "yarn"}, {"factor", 2.0}}}},
       {"field 'rope_parameters' has the type 'yarn'"}},
      {"llama",
       {{"rope_scaling", {{"rope_type", "llama3"}, {"factor", 8.0}}}},
       {"field 'rope_scaling.low_freq_factor' is missing"}},
      {"llama",
       {{"rope_scaling", {{"rope_type", "default"}, {"factor", 8.0}}}},
       {"field 'rope_scaling.factor' is 8.0, and is not known"}},
      {"llama",
       {{"rope_theta", 1e4}, {"rope_parameters", {{"rope_theta", 1e5}}}},
       {"has rope_theta = 100000, but beside it rope_theta = 10000"}},
      {"llama",
       {{"rope_scaling", {{"rope_type", "default"}}}, {"rope_parameters", {{"rope_theta", 1e5}}}},
       {"field 'rope_parameters' is there beside rope_scaling"}},
      {"llama", {{"partial_rotary_factor", 0.5}}, {"field 'partial_rotary_factor' is 0.5"}},
      {"llama",
       {{"quantization_config", {{"bits", 4}}}},
       {"field 'quantization_config' is {\"bits\":4}, and is not known"}},
      {"llama", {{"num_experts", 8}}, {"field 'num_experts' is 8, and is not known"}},
      {"qwen2",
       {{"layer_types", {"linear_attention", "full_attention"}}},
       {"field 'layer_types[0]' is 'linear_attention', known: full_attention"}},
      {"mistral", {{"sliding_window", 0}}, {"field 'sliding_window' must be at least 1"}},
      {"gpt2", {{"activation_function", "relu"}}, {"field 'activation_function' is 'relu'"}},
      {"gpt2", {{"n_inner", 100}}, {"field 'n_inner' is 100, but must be 32"}},
      {"gpt2", {{"layer_norm_epsilon", 1e-6}}, {"field 'layer_norm_epsilon'"}},
      {"gpt2", {{"scale_attn_weights", false}}, {"field 'scale_attn_weights' is false"}},
      {"gpt2", {{"scale_attn_by_inverse_layer_idx", true}}, {"field 'scale_attn_by_inverse"}},
      {"gpt2", {{"tie_word_embeddings", false}}, {"field 'tie_word_embeddings' is false"}},
      {"gpt2", {{"add_cross_attention", true}}, {"field 'add_cross_attention' is true"}},
      {"gpt2", {{"n_ctx", 8}}, {"field 'n_ctx' is 8, but must be 16"}},
      {"gpt2", {{"pruned_heads", {{"0", {1}}}}}, {"field 'pruned_heads'"}},
  };
  return list;
}

TEST(ConfigJson, TakesKeysOfOtherKindsThatSayWhatItComputes) {
  for (const Refusal& harmless : {Refusal{"mistral", {{"attention_bias", false}}, {}},
                                  Refusal{"llama", {{"use_sliding_window", false}}, {}}})
    EXPECT_EQ(parsed(changed(harmless.type, harmless.keys)),
              parsed(changed(harmless.type, json::object())))
        << harmless.keys;
}

TEST(ConfigJson, RefusesByNameWhatItCannotCompute) {
  for (const Refusal& refusal : refusals()) {
    const json config = refusal.keys.contains("model_type") ? changed("llama", refusal.keys)
                                                            : changed(refusal.type, refusal.keys);
    std::vector<std::string> parts = refusal.parts;
    parts.emplace_back("/m/config.json: ");
    parts.emplace_back("; use a model that docs/huggingface.md lists");
    EXPECT_THAT([&] { parsed(config); }, fails_with(parts)) << config;
  }
}

TEST(ConfigJson, StandsDamage) {
  for (const std::string& type : test::all_model_types())
    test::expect_stands_damage(tiny_hf_config(type).dump(), 1000, [](const std::string& text) {
      static_cast<void>(parse_config(text, "config.json"));
    });
}

/// What is written says the same model when it is read again.
TEST(ConfigJson, WritesWhatItReads) {
  const json scaled{{"rope_theta", 5e5},
                    {"rope_scaling",
                     {{"rope_type", "llama3"},
                      {"factor", 32.0},
                      {"low_freq_factor", 1.0},
                      {"high_freq_factor", 4.0},
                      {"original_max_position_embeddings", 8192}}}};
  const json window{{"use_sliding_window", true}, {"sliding_window", 6}, {"max_window_layers", 0}};
  std::vector<json> configs{changed("llama", scaled), changed("llama", {{"head_dim", 6}}),
                            changed("llama", {{"tie_word_embeddings", true}}),
                            changed("qwen2", window), changed("qwen3", window)};
  for (const std::string& type : test::all_model_types()) configs.push_back(tiny_hf_config(type));
  for (const json& config : configs) {
    const shape::ModelConfig model = parsed(config);
    const json written = config_json(model, {.dtype = DType::kBF16, .ends = {7}});
    EXPECT_EQ(written.at("model_type"), config.at("model_type"));
    // Scaled rotary embeddings are for more tokens than this one has.
    shape::ModelConfig again = parsed(written);
    if (again.rope_scaling != shape::RopeScaling{}) again.context = model.context;
    EXPECT_EQ(again, model) << written;
    EXPECT_EQ(written.at("torch_dtype"), "bfloat16");
    EXPECT_EQ(written.at("eos_token_id"), 7);
  }
}

TEST(ConfigJson, ScaledModelsAreWrittenForMoreTokensThanBefore) {
  shape::ModelConfig model = parsed(tiny_hf_config("llama"));
  model.rope_scaling.factor = 2.5;
  model.rope_scaling.original_context = 33;
  const std::pair<Index, Index> cases[] = {{7, 83}, {33, 83}, {34, 34}};
  for (const auto& [context, written] : cases) {
    model.context = context;
    EXPECT_EQ(config_json(model, {}).at("max_position_embeddings"), written);
  }
  model.context = 33;
  model.rope_scaling.factor = 1e300;
  EXPECT_NO_THROW((void)parsed(config_json(model, {})));
}

TEST(ConfigJson, HeadsThatDoNotDivideTheWidthAreWrittenAsMistral) {
  shape::ModelConfig model = parsed(changed("llama", {{"head_dim", 6}}));
  ++model.width;
  const json written = config_json(model, {});
  EXPECT_EQ(written.at("model_type"), "mistral");
  EXPECT_TRUE(written.at("sliding_window").is_null());
  EXPECT_EQ(parsed(written), model);
}

TEST(ConfigJson, KeysOfKnownFoldersAreRead) {
  // Of gpt2-xl, Qwen2.5-0.5B, huggyllama/llama-7b and of folders that unsloth writes.
  const json older{{"n_special", 0}, {"predict_special_tokens", true}, {"output_past", true}};
  EXPECT_EQ(parsed(changed("gpt2", older)), parsed(tiny_hf_config("gpt2")));
  EXPECT_EQ(parsed(changed("qwen2", {{"use_mrope", false}})), parsed(tiny_hf_config("qwen2")));
  const shape::ModelConfig llama = parsed(tiny_hf_config("llama"));
  const json others{{"max_sequence_length", llama.context},
                    {"unsloth_fixed", true},
                    {"unsloth_version", "2025.1"}};
  EXPECT_EQ(parsed(changed("llama", others)), llama);
  EXPECT_THAT(
      [] {
        parsed(changed("qwen2", {{"use_mrope", true}}));
      },
      fails_with({"field 'use_mrope'"}));
  EXPECT_THAT(
      [] {
        parsed(changed("llama", {{"max_sequence_length", 1}}));
      },
      fails_with({"field 'max_sequence_length'"}));
}

TEST(ConfigJson, RefusesToWriteWhatTransformersLacks) {
  shape::ModelConfig model = parsed(tiny_hf_config("qwen3"));
  model.qkv_bias = true;
  EXPECT_THAT([&] { config_json(model, {}); }, fails_with({"model.qk_norm and model.qkv_bias"}));
  model.architecture = "toy";
  EXPECT_THAT([&] { config_json(model, {}); }, fails_with({"'toy'"}));
}

}  // namespace
}  // namespace dos::hf::config_json_test
