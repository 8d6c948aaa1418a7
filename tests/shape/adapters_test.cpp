// SPDX-License-Identifier: Apache-2.0
#include "shape/adapters.hpp"

#include <gmock/gmock.h>

#include <cmath>

#include "fails_with.hpp"
#include "shape/activation_sets.hpp"
#include "shape/cutter.hpp"
#include "shape/family_shape.hpp"
#include "shape/model.hpp"
#include "shape/trained_groups.hpp"

namespace dos::shape::adapters_test {
namespace {

using ::testing::ElementsAre;

ModelConfig adapted_llama() {
  ModelConfig model{"llama", 2, 24, 6, 8, 61, /*kv_heads=*/2, /*ffn=*/40};
  model.qkv_bias = true;
  model.adapters = {
      .rank = 3, .alpha = 6, .targets = {{"attention.qkv", {0, 2}}, {"mlp.down", {0}}}};
  return model;
}

ModelConfig adapted_gpt2() {
  ModelConfig model{"gpt2", 2, 24, 3, 8, 61};
  model.adapters = {.rank = 4, .targets = {{"attention.qkv", {0}}}};
  return model;
}

std::vector<std::string> names_of(const ModelConfig& model, Index depth) {
  std::vector<std::string> names;
  for (const ParameterSpec& spec : find_family(model.architecture).parameters(model))
    if (spec.depth == depth) names.push_back(spec.name);
  return names;
}

TEST(Adapters, StandBehindTheirMatrices) {
  EXPECT_THAT(names_of(adapted_llama(), 2),
              ElementsAre("blocks.1.norm1.weight", "blocks.1.attention.qkv.weight",
                          "blocks.1.attention.qkv.lora_a.weight",
                          "blocks.1.attention.qkv.lora_b.weight", "blocks.1.attention.qkv.bias",
                          "blocks.1.attention.projection.weight", "blocks.1.norm2.weight",
                          "blocks.1.mlp.gate_up.weight", "blocks.1.mlp.down.weight",
                          "blocks.1.mlp.down.lora_a.weight", "blocks.1.mlp.down.lora_b.weight"));
  EXPECT_EQ(names_of(adapted_llama().base(), 2).size(), 7);
}

TEST(Adapters, HaveTheShapesOfTheirParts) {
  const Layout layout =
      cut_into_subgroups(llama().parameters(adapted_llama()), 1'000'000, DecayGroups{});
  const ParameterSpec& qkv = layout.find("blocks.0.attention.qkv.weight").spec;
  ASSERT_TRUE(qkv.adapted.has_value());
  EXPECT_EQ(qkv.adapted->rank, 3);
  EXPECT_EQ(qkv.adapted->width(), 6);
  EXPECT_EQ(qkv.adapted->scale, 2);
  ASSERT_EQ(qkv.adapted->parts.size(), 2U);
  // Queries of 6 heads of 4, then keys and values of 2.
  EXPECT_EQ(qkv.adapted->parts[0].first, 0);
  EXPECT_EQ(qkv.adapted->parts[0].rows, 24);
  EXPECT_EQ(qkv.adapted->parts[1].first, 32);
  EXPECT_EQ(qkv.adapted->parts[1].rows, 8);
  const ParameterSpec& down = layout.find("blocks.0.attention.qkv.lora_a.weight").spec;
  EXPECT_THAT(down.shape(), ElementsAre(6, 24));
  EXPECT_THAT(down.parts, ElementsAre(3, 3));
  EXPECT_FLOAT_EQ(down.init.bound, 1 / std::sqrt(24.0F));
  const ParameterSpec& up = layout.find("blocks.0.attention.qkv.lora_b.weight").spec;
  EXPECT_THAT(up.shape(), ElementsAre(32, 3));
  EXPECT_THAT(up.parts, ElementsAre(24, 8));
  EXPECT_EQ(up.init.deviation + up.init.constant + up.init.bound, 0);
  EXPECT_THAT(layout.find("blocks.1.mlp.down.lora_a.weight").spec.shape(), ElementsAre(3, 40));
}

TEST(Adapters, AloneAreTrained) {
  std::vector<ParameterSpec> parameters = llama().parameters(adapted_llama());
  mark_trained({}, parameters);
  for (const ParameterSpec& spec : parameters)
    EXPECT_EQ(spec.trained, spec.name.find(".lora_") != std::string::npos) << spec.name;
  mark_trained({.frozen = {"blocks.0.*", "*.lora_a.*"},
                .factors = {{.pattern = "*.lora_b.weight", .factor = 16}}},
               parameters);
  for (const ParameterSpec& spec : parameters) {
    EXPECT_EQ(spec.trained, spec.name.starts_with("blocks.1.") && spec.name.ends_with("_b.weight"))
        << spec.name;
    EXPECT_EQ(spec.lr_factor, spec.trained ? 16 : 1) << spec.name;
  }
  EXPECT_THAT([&] { mark_trained({.frozen = {"token*"}, .factors = {}}, parameters); },
              test::fails_with({"optim.freeze", "'token*' matches no adapter of the model"}));
  EXPECT_THAT([&] { mark_trained({.frozen = {"*"}, .factors = {}}, parameters); },
              test::fails_with({"freezes every parameter"}));
}

TEST(Adapters, NeedNumbersBetweenTheirMatrices) {
  const ModelConfig model = adapted_llama();
  const ActivationCount with = count_activations(llama(), model, {});
  const ActivationCount without = count_activations(llama(), model.base(), {});
  // 6 and 3 numbers of each of two blocks, kept by forward, and gradients of both.
  EXPECT_EQ(with.values - without.values, 2 * 9 + 2 * 9);
  EXPECT_EQ(with.wide, without.wide);
  const BlockShape block = llama().block(model);
  EXPECT_EQ(block.kept.back().name, "mlp.down.lora");
  EXPECT_EQ(block.forward_tasks, llama().block(model.base()).forward_tasks + 4);
}

TEST(Adapters, AreScaled) {
  EXPECT_EQ((Adapters{.rank = 16, .alpha = 8}.scale()), 0.5);
  EXPECT_EQ((Adapters{.rank = 16, .alpha = 8, .by_root = true}.scale()), 2);
}

TEST(Adapters, MakeAModelOfTheirOwn) {
  EXPECT_NE(adapted_gpt2(), adapted_gpt2().base());
  const Model model = model_of("m", adapted_gpt2());
  EXPECT_EQ(model.params() - model_of("m", adapted_gpt2().base()).params(), 2 * (4 * 24 + 72 * 4));
}

TEST(Adapters, ThatDoNotFitAreRefused) {
  const auto check = [](const Adapters& adapters) {
    return [adapters] {
      ModelConfig model = adapted_llama();
      model.adapters = adapters;
      validate(model);
    };
  };
  const Adapters good = adapted_llama().adapters;
  EXPECT_NO_THROW(check(good)());
  // Keys and values have 8 rows.
  Adapters high = good;
  high.rank = 9;
  EXPECT_THAT(check(high),
              test::fails_with({"lora.rank = 9 is above 8", "[8, 24]", "attention.qkv"}));
  high.rank = 8;
  EXPECT_NO_THROW(check(high)());
  Adapters negative = good;
  negative.rank = -1;
  EXPECT_THAT(check(negative), test::fails_with({"lora.rank", "-1"}));
  for (const double alpha : {0.0, -2.0, std::nan("")}) {
    Adapters bad = good;
    bad.alpha = alpha;
    EXPECT_THAT(check(bad), test::fails_with({"lora.alpha"}));
  }
  Adapters none = good;
  none.targets.clear();
  EXPECT_THAT(check(none), test::fails_with({"lora.targets"}));
  Adapters other = good;
  other.targets["mlp.up"] = {0};
  EXPECT_THAT(check(other), test::fails_with({"'mlp.up'", "no such matrix"}));
  Adapters part = good;
  part.targets["mlp.gate_up"] = {2};
  EXPECT_THAT(check(part), test::fails_with({"mlp.gate_up", "parts 0 to 1"}));
}

}  // namespace
}  // namespace dos::shape::adapters_test
