// SPDX-License-Identifier: Apache-2.0
#include "hf/adapter_config.hpp"

#include <gmock/gmock.h>

#include "fails_with.hpp"

namespace dos::hf::adapter_config_test {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;
using Names = std::vector<std::string>;

const shape::ModelConfig kGpt2{"gpt2", 2, 24, 3, 8, 61};
const shape::ModelConfig kLlama{"llama", 2, 24, 6, 8, 61, /*kv_heads=*/2, /*ffn=*/40};

shape::ModelConfig adapted(shape::ModelConfig model, const Names& names, Index rank = 2) {
  model.adapters = {.rank = rank, .alpha = 4, .targets = adapter_targets(model, names)};
  return model;
}

TEST(AdapterTargets, AreThoseOfPeft) {
  EXPECT_THAT(adapter_targets(kGpt2, {}), ElementsAre(Pair("attention.qkv", ElementsAre(0))));
  EXPECT_THAT(adapter_targets(kLlama, {}), ElementsAre(Pair("attention.qkv", ElementsAre(0, 2))));
  // A name may be that of several modules.
  EXPECT_THAT(adapter_targets(kGpt2, {"c_proj"}),
              UnorderedElementsAre(Pair("attention.projection", ElementsAre(0)),
                                   Pair("mlp.down", ElementsAre(0))));
  EXPECT_THAT(adapter_targets(kGpt2, {"mlp.c_proj"}),
              ElementsAre(Pair("mlp.down", ElementsAre(0))));
  EXPECT_THAT(adapter_targets(kLlama, {"up_proj", "gate_proj", "k_proj", "up_proj"}),
              UnorderedElementsAre(Pair("mlp.gate_up", ElementsAre(0, 1)),
                                   Pair("attention.qkv", ElementsAre(1))));
  const auto all = adapter_targets(kLlama, {"all-linear"});
  EXPECT_THAT(all, UnorderedElementsAre(Pair("attention.qkv", ElementsAre(0, 1, 2)),
                                        Pair("attention.projection", ElementsAre(0)),
                                        Pair("mlp.gate_up", ElementsAre(0, 1)),
                                        Pair("mlp.down", ElementsAre(0))));
}

TEST(AdapterTargets, ThatMatchNothingAreRefused) {
  EXPECT_THAT([] { adapter_targets(kLlama, {"q_prj"}); },
              test::fails_with({"lora.targets: 'q_prj' matches no matrix", "did you mean 'q_proj'?",
                                "all-linear"}));
  // The head and embeddings are no matrices of blocks; nor is a part of a name one.
  for (const char* name : {"lm_head", "embed_tokens", "input_layernorm", "proj", "c_attn"})
    EXPECT_THAT(
        [&] {
          adapter_targets(kLlama, {"q_proj", name});
        },
        test::fails_with({name, "matches no matrix"}));
  // A message is one line, whatever a folder calls its modules.
  EXPECT_THAT([] { adapter_targets(kLlama, {"q_proj\nk"}); },
              test::fails_with({R"(lora.targets: 'q_proj\nk' matches no matrix)"}));
}

TEST(AdapterTensors, HaveTheNamesOfPeft) {
  Names names;
  for (const TensorName& name : adapter_tensors(adapted(kGpt2, {}))) names.push_back(name.tensor);
  EXPECT_THAT(names, ElementsAre("base_model.model.transformer.h.0.attn.c_attn.lora_A.weight",
                                 "base_model.model.transformer.h.0.attn.c_attn.lora_B.weight",
                                 "base_model.model.transformer.h.1.attn.c_attn.lora_A.weight",
                                 "base_model.model.transformer.h.1.attn.c_attn.lora_B.weight"));
  const std::vector<TensorName> llama = adapter_tensors(adapted(kLlama, {}));
  ASSERT_EQ(llama.size(), 8U);
  EXPECT_EQ(llama[1].tensor, "base_model.model.model.layers.0.self_attn.v_proj.lora_A.weight");
  EXPECT_EQ(llama[1].parameter, "blocks.0.attention.qkv.lora_a.weight");
  EXPECT_EQ(llama[1].first, 2);
  EXPECT_THAT(llama[1].shape, ElementsAre(2, 24));
  EXPECT_EQ(llama[3].tensor, "base_model.model.model.layers.0.self_attn.v_proj.lora_B.weight");
  EXPECT_EQ(llama[3].first, 24);
  EXPECT_THAT(llama[3].shape, ElementsAre(8, 2));
}

shape::AdapterChoice parse(const nlohmann::json& json) {
  return parse_adapter_config(json.dump(), "adapter_config.json");
}

TEST(AdapterConfig, ComesBack) {
  for (const Names& targets : {Names{}, Names{"all-linear"}, Names{"o_proj", "gate_proj"}}) {
    shape::ModelConfig model = adapted(kLlama, targets);
    model.adapters.by_root = true;
    model.adapters.alpha = 4.5;
    const shape::AdapterChoice choice = parse(adapter_json(model, "base"));
    EXPECT_EQ(choice.rank, 2);
    EXPECT_EQ(choice.alpha, 4.5);
    EXPECT_TRUE(choice.rslora);
    Names names;
    std::string_view left = choice.targets;
    while (!left.empty()) {
      names.emplace_back(left.substr(0, left.find(',')));
      left.remove_prefix(std::min(left.size(), names.back().size() + 1));
    }
    EXPECT_EQ(adapter_targets(kLlama, names), model.adapters.targets);
  }
}

TEST(AdapterConfig, SaysWhatPeftNeeds) {
  const nlohmann::json gpt2 = adapter_json(adapted(kGpt2, {"mlp.c_proj", "c_attn"}), "");
  EXPECT_EQ(gpt2.at("fan_in_fan_out"), true);
  EXPECT_EQ(gpt2.at("base_model_name_or_path"), nullptr);
  EXPECT_EQ(gpt2.at("lora_alpha").dump(), "4");
  // "c_proj" would mean that of attention, too.
  EXPECT_EQ(gpt2.at("target_modules"), nlohmann::json({"c_attn", "mlp.c_proj"}));
  const nlohmann::json llama = adapter_json(adapted(kLlama, {}), "base");
  EXPECT_EQ(llama.at("fan_in_fan_out"), false);
  EXPECT_EQ(llama.at("base_model_name_or_path"), "base");
  EXPECT_EQ(llama.at("target_modules"), nlohmann::json({"q_proj", "v_proj"}));
}

TEST(AdapterConfig, TakesWholeNames) {
  nlohmann::json json = adapter_json(adapted(kLlama, {}), "");
  json["target_modules"] = {"model.layers.0.self_attn.q_proj", "model.layers.1.self_attn.q_proj",
                            "mlp.up_proj"};
  EXPECT_EQ(parse(json).targets, "mlp.up_proj,self_attn.q_proj");
  json["target_modules"] = "all-linear";
  EXPECT_EQ(parse(json).targets, "all-linear");
}

TEST(AdapterConfig, StartsThatLeaveTheModelAreTaken) {
  nlohmann::json json = adapter_json(adapted(kLlama, {}), "");
  for (const nlohmann::json& start :
       {nlohmann::json(true), nlohmann::json(false), nlohmann::json(nullptr),
        nlohmann::json("gaussian"), nlohmann::json("eva"), nlohmann::json("orthogonal")}) {
    json["init_lora_weights"] = start;
    EXPECT_NO_THROW(parse(json)) << start;
  }
}

TEST(AdapterConfig, NumbersThatPeftAlwaysWritesAreTaken) {
  nlohmann::json json = adapter_json(adapted(kLlama, {}), "");
  json.update({{"qalora_group_size", 16}, {"lora_dropout", 0.05}, {"layer_replication", nullptr}});
  EXPECT_NO_THROW(parse(json));
}

TEST(AdapterConfig, OfWhatIsNotComputedIsRefused) {
  const nlohmann::json good = adapter_json(adapted(kLlama, {}), "");
  const std::vector<std::pair<std::string, nlohmann::json>> cases{
      {"peft_type", "IA3"},
      {"bias", "all"},
      {"use_dora", true},
      {"modules_to_save", {"lm_head"}},
      {"rank_pattern", {{"q", 3}}},
      {"layers_to_transform", {0}},
      {"layers_to_transform", 0},
      {"layers_to_transform", 3},
      {"new_scale", 3},
      {"new_scale", 0.5},
      {"target_modules", ".*proj"},
      {"target_modules", nlohmann::json::array()},
      {"target_modules", {"a,b"}},
      {"r", 0},
      {"r", "4"},
      {"lora_alpha", -1},
      {"lora_alpha", nullptr},
      {"layer_replication", {{0, 1}}},
      {"exclude_modules", "q_proj"},
      {"init_lora_weights", "pissa"},
      {"init_lora_weights", "pissa_niter_4"},
      {"init_lora_weights", "olora"},
      {"init_lora_weights", "corda"},
      {"init_lora_weights", "loftq"},
      {"init_lora_weights", 3},
      {"a_key_of_tomorrow", true}};
  for (const auto& [key, value] : cases) {
    nlohmann::json json = good;
    json[key] = value;
    EXPECT_THAT([&] { parse(json); }, test::fails_with({"adapter_config.json", key}))
        << key << " " << value;
  }
  for (const char* key : {"peft_type", "r", "lora_alpha", "target_modules"}) {
    nlohmann::json json = good;
    json.erase(key);
    EXPECT_THAT([&] { parse(json); }, test::fails_with({key, "missing"}));
  }
  EXPECT_THAT([] { parse_adapter_config("[]", "adapter_config.json"); },
              test::fails_with({"adapter_config.json"}));
}

}  // namespace
}  // namespace dos::hf::adapter_config_test
