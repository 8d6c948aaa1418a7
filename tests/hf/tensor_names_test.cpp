// SPDX-License-Identifier: Apache-2.0
#include "hf/tensor_names.hpp"

#include <gmock/gmock.h>

#include <map>
#include <set>

#include "fails_with.hpp"
#include "hf/folder.hpp"
#include "shape/family_shape.hpp"

namespace dos::hf::tensor_names_test {
namespace {

using testing::IsSupersetOf;

shape::ModelConfig tiny(const std::string& type) {
  return parse_config(test::tiny_hf_config(type).dump(), "config.json");
}

/// Name and shape, as save_pretrained() writes them.
using Listed = std::map<std::string, std::vector<Index>>;

Listed listed(const shape::ModelConfig& model) {
  Listed result;
  for (const TensorName& name : tensor_names(model)) result.emplace(name.tensor, name.shape);
  return result;
}

TEST(TensorNames, NamesGpt2) {
  const Listed found = listed(tiny("gpt2"));
  EXPECT_THAT(found, IsSupersetOf(Listed{{"transformer.wte.weight", {11, 8}},
                                         {"transformer.wpe.weight", {16, 8}},
                                         {"transformer.h.1.ln_1.bias", {8}},
                                         {"transformer.h.1.attn.c_attn.weight", {8, 24}},
                                         {"transformer.h.1.attn.c_attn.bias", {24}},
                                         {"transformer.h.0.attn.c_proj.weight", {8, 8}},
                                         {"transformer.h.0.mlp.c_fc.weight", {8, 32}},
                                         {"transformer.h.0.mlp.c_proj.weight", {32, 8}},
                                         {"transformer.ln_f.weight", {8}}}));
  EXPECT_EQ(found.size(), 2U + 2 * 12 + 2);
}

TEST(TensorNames, NamesLlamaAndItsKin) {
  const Listed found = listed(tiny("llama"));
  EXPECT_THAT(found, IsSupersetOf(Listed{{"model.embed_tokens.weight", {11, 8}},
                                         {"model.layers.1.input_layernorm.weight", {8}},
                                         {"model.layers.0.self_attn.q_proj.weight", {8, 8}},
                                         {"model.layers.0.self_attn.k_proj.weight", {4, 8}},
                                         {"model.layers.0.self_attn.v_proj.weight", {4, 8}},
                                         {"model.layers.0.self_attn.o_proj.weight", {8, 8}},
                                         {"model.layers.0.post_attention_layernorm.weight", {8}},
                                         {"model.layers.0.mlp.gate_proj.weight", {12, 8}},
                                         {"model.layers.0.mlp.up_proj.weight", {12, 8}},
                                         {"model.layers.0.mlp.down_proj.weight", {8, 12}},
                                         {"model.norm.weight", {8}},
                                         {"lm_head.weight", {11, 8}}}));
  EXPECT_EQ(found.size(), 1U + 2 * 9 + 2);
  EXPECT_THAT(listed(tiny("qwen2")),
              IsSupersetOf(Listed{{"model.layers.0.self_attn.q_proj.bias", {8}},
                                  {"model.layers.0.self_attn.v_proj.bias", {4}}}));
  EXPECT_THAT(listed(tiny("qwen3")),
              IsSupersetOf(Listed{{"model.layers.0.self_attn.q_proj.weight", {16, 8}},
                                  {"model.layers.0.self_attn.o_proj.weight", {8, 16}},
                                  {"model.layers.0.self_attn.q_norm.weight", {4}},
                                  {"model.layers.0.self_attn.k_norm.weight", {4}}}));
  shape::ModelConfig tied = tiny("llama");
  tied.tied_head = true;
  EXPECT_FALSE(listed(tied).contains("lm_head.weight"));
}

/// Every element of every parameter lies in one tensor.
TEST(TensorNames, CoverEveryParameterOnce) {
  for (const std::string& type : test::all_model_types()) {
    const shape::ModelConfig model = tiny(type);
    std::map<std::string, Index> covered;
    std::set<std::string> names;
    for (const TensorName& name : tensor_names(model)) {
      EXPECT_TRUE(names.insert(name.tensor).second) << name.tensor;
      Index& elements = covered[name.parameter];
      const Index row = name.shape.size() == 2 && !name.is_transposed ? name.shape[1] : 1;
      EXPECT_EQ(name.first * row, elements) << name.tensor;
      elements += name.count();
    }
    for (const shape::ParameterSpec& spec :
         shape::find_family(model.architecture).parameters(model))
      EXPECT_EQ(covered[spec.name], spec.count()) << type << " " << spec.name;
  }
}

TEST(TensorNames, KnowsConstantsFromParameters) {
  EXPECT_TRUE(is_constant("transformer.h.0.attn.bias"));
  EXPECT_TRUE(is_constant("h.0.attn.masked_bias"));
  EXPECT_TRUE(is_constant("model.layers.0.self_attn.rotary_emb.inv_freq"));
  for (const std::string& type : test::all_model_types())
    for (const TensorName& name : tensor_names(tiny(type)))
      EXPECT_FALSE(is_constant(name.tensor)) << name.tensor;
}

TEST(TensorNames, RefusesOtherFamilies) {
  EXPECT_THAT([] { tensor_names({.architecture = "toy"}); }, test::fails_with({"'toy'"}));
}

}  // namespace
}  // namespace dos::hf::tensor_names_test
