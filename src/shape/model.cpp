// SPDX-License-Identifier: Apache-2.0
#include "shape/model.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "base/nearest.hpp"

namespace dos::shape {
namespace {

struct Preset {
  std::string name;
  ModelConfig config;
};

/// Megatron-DeepSpeed pads the vocabulary of Deep Optimizer States' models to 50304; sequences of
/// its runs have 2048 tokens.
ModelConfig published(Index width, Index ffn, Index layers, Index heads, Index kv_heads) {
  return {"llama", layers, width, heads, 2048, 50304, kv_heads, ffn};
}

/// Sizes of published models, as their config.json has them; the context is that of most of their
/// training, Mistral's what its reports measure with.
ModelConfig llama3(Index layers, Index width, Index heads, Index ffn, double factor) {
  ModelConfig model{"llama", layers, width, heads, 8192, 128256, 8, ffn};
  model.rope_theta = 500000;
  model.rope_scaling.factor = factor;
  return model;
}

ModelConfig tied(ModelConfig model) {
  model.tied_head = true;
  return model;
}

ModelConfig mistral() {
  ModelConfig model{"llama", 32, 4096, 32, 8192, 32000, 8, 14336};
  model.window = 4096;
  return model;
}

ModelConfig qwen25(Index layers, Index width, Index heads, Index kv_heads, Index ffn,
                   Index vocabulary) {
  ModelConfig model{"llama", layers, width, heads, 4096, vocabulary, kv_heads, ffn};
  model.rope_theta = 1000000;
  model.norm_epsilon = 1e-6;
  model.qkv_bias = true;
  return model;
}

/// From 14 billion parameters on.
ModelConfig large_qwen25(Index layers, Index width, Index heads, Index ffn) {
  ModelConfig model = qwen25(layers, width, heads, 8, ffn, 152064);
  model.norm_epsilon = 1e-5;
  return model;
}

ModelConfig qwen3(Index layers, Index width, Index heads, Index kv_heads, Index ffn) {
  ModelConfig model{"llama", layers, width, heads, 4096, 151936, kv_heads, ffn};
  model.head_dim = 128;
  model.rope_theta = 1000000;
  model.norm_epsilon = 1e-6;
  model.qk_norm = true;
  return model;
}

ModelConfig smollm2() {
  ModelConfig model{"llama", 30, 576, 9, 2048, 49152, 3, 1536};
  model.rope_theta = 100000;
  return tied(model);
}

/// GPT-2: small ones for a laptop and byte tokens; the sizes of "Language models are unsupervised
/// multitask learners" (Radford et al., 2019); three of "Language models are few-shot learners"
/// (arXiv 2005.14165, table 2.1; its 24 heads of 128 elements do not make the width of 2048, 16
/// do, nor its 40 the width of 5140, they make 5120); the largest of "Efficient large-scale
/// language model training on GPU clusters" (arXiv 2104.04473, table 1; sequences of 2048 tokens,
/// vocabulary 51200). LLaMA, by numbers of parameters: the shapes of Deep Optimizer States
/// (github.com/DataStates/artifacts, master-script.sh). The names are the paper's; the real
/// parameter counts differ from them. The others by the names of their publishers: meta-llama,
/// mistralai (v0.1), Qwen, HuggingFaceTB.
const std::vector<Preset>& presets() {
  static const std::vector<Preset> list{
      {"tiny", {"gpt2", 2, 64, 2, 64, 257}},
      {"small-3m", {"gpt2", 4, 256, 4, 256, 2048}},
      {"small-11m", {"gpt2", 6, 384, 6, 256, 257}},
      {"gpt2-124m", {"gpt2", 12, 768, 12, 1024, 50257}},
      {"gpt2-355m", {"gpt2", 24, 1024, 16, 1024, 50257}},
      {"gpt2-774m", {"gpt2", 36, 1280, 20, 1024, 50257}},
      {"gpt2-1.5b", {"gpt2", 48, 1600, 25, 1024, 50257}},
      {"gpt3-1.3b", {"gpt2", 24, 2048, 16, 2048, 50257}},
      {"gpt3-13b", {"gpt2", 40, 5120, 40, 2048, 50257}},
      {"gpt3-175b", {"gpt2", 96, 12288, 96, 2048, 50257}},
      {"gpt-1t", {"gpt2", 128, 25600, 160, 2048, 51200}},
      {"llama-1.3b", published(2048, 8192, 24, 32, 8)},
      {"llama-3b", published(2560, 8192, 30, 32, 8)},
      {"llama-7b", published(4096, 11008, 32, 32, 4)},
      {"llama-8.3b", published(3072, 11008, 72, 32, 4)},
      {"llama-10b", published(4096, 12400, 50, 32, 4)},
      {"llama-13b", published(5120, 13824, 40, 40, 4)},
      {"llama-20b", published(5120, 20480, 40, 64, 4)},
      {"llama-30b", published(6656, 17920, 60, 52, 4)},
      {"llama-40b", published(5120, 20480, 128, 40, 4)},
      {"llama-70b", published(8192, 28672, 80, 64, 4)},
      {"llama-tiny", {"llama", 2, 64, 4, 64, 257, /*kv_heads=*/2, /*ffn=*/176}},
      {"llama-3.1-8b", llama3(32, 4096, 32, 14336, 8)},
      {"llama-3.1-70b", llama3(80, 8192, 64, 28672, 8)},
      {"llama-3.2-1b", tied(llama3(16, 2048, 32, 8192, 32))},
      {"mistral-7b", mistral()},
      {"qwen2.5-0.5b", tied(qwen25(24, 896, 14, 2, 4864, 151936))},
      {"qwen2.5-1.5b", tied(qwen25(28, 1536, 12, 2, 8960, 151936))},
      {"qwen2.5-3b", tied(qwen25(36, 2048, 16, 2, 11008, 151936))},
      {"qwen2.5-7b", qwen25(28, 3584, 28, 4, 18944, 152064)},
      {"qwen2.5-14b", large_qwen25(48, 5120, 40, 13824)},
      {"qwen2.5-32b", large_qwen25(64, 5120, 40, 27648)},
      {"qwen2.5-72b", large_qwen25(80, 8192, 64, 29568)},
      {"qwen3-0.6b", tied(qwen3(28, 1024, 16, 8, 3072))},
      {"smollm2-135m", smollm2()},
  };
  return list;
}

}  // namespace

Index Model::params() const {
  Index sum = 0;
  for (const ParameterSpec& spec : parameters) sum += spec.count();
  return sum;
}

Index Model::trained_params() const {
  Index sum = 0;
  for (const Index params : trained_by_depth()) sum += params;
  return sum;
}

Index Model::first_trained_depth() const {
  Index first = depths();
  for (const ParameterSpec& spec : parameters)
    if (spec.trained) first = std::min(first, spec.depth);
  return first;
}

std::vector<Index> Model::params_by_depth() const {
  std::vector<Index> sums(static_cast<std::size_t>(depths()));
  for (const ParameterSpec& spec : parameters)
    sums[static_cast<std::size_t>(spec.depth)] += spec.count();
  return sums;
}

std::vector<Index> Model::trained_by_depth() const {
  std::vector<Index> sums(static_cast<std::size_t>(depths()));
  for (const ParameterSpec& spec : parameters)
    if (spec.trained) sums[static_cast<std::size_t>(spec.depth)] += spec.count();
  return sums;
}

Model model_of(std::string name, const ModelConfig& config) {
  validate(config);
  const Family& family = find_family(config.architecture);
  return {.name = std::move(name),
          .config = config,
          .family = &family,
          .parameters = family.parameters(config)};
}

const ModelConfig& find_preset(const std::string& name, const char* what,
                               const std::vector<std::string>& known, const char* more) {
  if (std::ranges::find(known, name) != known.end())
    for (const Preset& preset : presets())
      if (preset.name == name) return preset.config;
  fail("unknown {} '{}'{}; known: {}{}", what, name, did_you_mean(name, known),
       fmt::join(known, ", "), more);
}

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const Preset& preset : presets()) names.push_back(preset.name);
  return names;
}

std::vector<std::string> preset_names(const std::string& family) {
  std::vector<std::string> names;
  for (const Preset& preset : presets())
    if (preset.config.architecture == family) names.push_back(preset.name);
  return names;
}

}  // namespace dos::shape
