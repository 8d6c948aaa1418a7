// SPDX-License-Identifier: Apache-2.0
#include "planner/model_shape.hpp"

#include <array>

namespace dos::planner {
namespace {

struct LlamaPreset {
  const char* name;
  Index width, ffn, layers, heads, kv_heads;
};

// github.com/DataStates/artifacts, Deep Optimizer States, master-script.sh.
constexpr std::array kLlama{
    LlamaPreset{"llama-1.3b", 2048, 8192, 24, 32, 8},  //
    LlamaPreset{"llama-3b", 2560, 8192, 30, 32, 8},
    LlamaPreset{"llama-7b", 4096, 11008, 32, 32, 4},
    LlamaPreset{"llama-8.3b", 3072, 11008, 72, 32, 4},
    LlamaPreset{"llama-10b", 4096, 12400, 50, 32, 4},
    LlamaPreset{"llama-13b", 5120, 13824, 40, 40, 4},
    LlamaPreset{"llama-20b", 5120, 20480, 40, 64, 4},
    LlamaPreset{"llama-30b", 6656, 17920, 60, 52, 4},
    LlamaPreset{"llama-40b", 5120, 20480, 128, 40, 4},
    LlamaPreset{"llama-70b", 8192, 28672, 80, 64, 4},
};

/// Megatron-DeepSpeed pads the vocabulary to 50304; sequences of its runs have 2048 tokens.
constexpr Index kLlamaVocabulary = 50304;
constexpr Index kLlamaContext = 2048;

ModelShape llama(const LlamaPreset& preset) {
  ModelShape shape{.name = preset.name,
                   .layers = preset.layers,
                   .width = preset.width,
                   .ffn = preset.ffn,
                   .heads = preset.heads,
                   .kv_heads = preset.kv_heads,
                   .context = kLlamaContext,
                   .vocabulary = kLlamaVocabulary,
                   .gated = true,
                   .tensors = {}};
  const Index kv_width = preset.width / preset.heads * preset.kv_heads;
  const auto add = [&](Index params, Index depth) { shape.tensors.push_back({params, depth}); };
  add(kLlamaVocabulary * preset.width, 0);
  for (Index layer = 1; layer <= preset.layers; ++layer) {
    add(preset.width, layer);                   // norm before attention
    add(preset.width * preset.width, layer);    // query
    add(preset.width * kv_width, layer);        // key
    add(preset.width * kv_width, layer);        // value
    add(preset.width * preset.width, layer);    // output
    add(preset.width, layer);                   // norm before the MLP
    add(2 * preset.width * preset.ffn, layer);  // gate and up, one matrix
    add(preset.ffn * preset.width, layer);      // down
  }
  add(preset.width, preset.layers + 1);
  add(kLlamaVocabulary * preset.width, preset.layers + 1);
  return shape;
}

}  // namespace

Index ModelShape::params() const {
  Index sum = 0;
  for (const TensorSize& tensor : tensors) sum += tensor.params;
  return sum;
}

std::vector<std::string> llama_names() {
  std::vector<std::string> names;
  for (const LlamaPreset& preset : kLlama) names.emplace_back(preset.name);
  return names;
}

std::optional<ModelShape> find_llama(const std::string& name) {
  for (const LlamaPreset& preset : kLlama)
    if (name == preset.name) return llama(preset);
  return std::nullopt;
}

}  // namespace dos::planner
