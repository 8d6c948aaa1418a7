// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "hf/config_json.hpp"
#include "hf/rope_json.hpp"

namespace dos::hf {
namespace {

using nlohmann::json;

json gpt2_json(const shape::ModelConfig& model) {
  return {{"model_type", "gpt2"},
          {"architectures", {"GPT2LMHeadModel"}},
          {"n_layer", model.layers},
          {"n_embd", model.width},
          {"n_head", model.heads},
          {"n_positions", model.position_rows()},
          {"n_inner", nullptr},
          {"activation_function", "gelu_new"},
          {"layer_norm_epsilon", 1e-5},
          {"tie_word_embeddings", true},
          // Training here has no dropout.
          {"attn_pdrop", 0.0},
          {"embd_pdrop", 0.0},
          {"resid_pdrop", 0.0}};
}

struct Kind {
  const char* type;
  const char* architecture;
};

Kind kind_of(const shape::ModelConfig& model) {
  if (model.qk_norm) {
    expect(
        !model.qkv_bias,
        "a model with model.qk_norm and model.qkv_bias: no kind of model that transformers knows "
        "has both; it cannot be exported");
    return {"qwen3", "Qwen3ForCausalLM"};
  }
  if (model.qkv_bias) return {"qwen2", "Qwen2ForCausalLM"};
  // transformers takes no llama whose heads do not divide the width.
  if (model.window != 0 || model.width % model.heads != 0) return {"mistral", "MistralForCausalLM"};
  return {"llama", "LlamaForCausalLM"};
}

/// With a scaling, more than the tokens that it is for: transformers warns of others. The scaling
/// takes the model to `factor` times as many.
Index longest_context(const shape::ModelConfig& model) {
  const shape::RopeScaling& scaling = model.rope_scaling;
  if (scaling == shape::RopeScaling{} || model.context > scaling.original_context)
    return model.context;
  constexpr double kMost = 1 << 28;  // beyond any model's
  const auto original = static_cast<double>(scaling.original_context);
  return static_cast<Index>(std::min(std::ceil(scaling.factor * original), kMost));
}

json llama_json(const shape::ModelConfig& model) {
  const Kind kind = kind_of(model);
  json config{{"model_type", kind.type},
              {"architectures", {kind.architecture}},
              {"num_hidden_layers", model.layers},
              {"hidden_size", model.width},
              {"intermediate_size", model.ffn},
              {"num_attention_heads", model.heads},
              {"num_key_value_heads", model.key_heads()},
              {"head_dim", model.head_size()},
              {"max_position_embeddings", longest_context(model)},
              {"hidden_act", "silu"},
              {"rms_norm_eps", model.norm_epsilon},
              {"tie_word_embeddings", model.tied_head},
              {"attention_dropout", 0.0}};
  const std::string type = kind.type;
  if (type == "llama" || type == "qwen3") config["attention_bias"] = false;
  if (type == "llama") config["mlp_bias"] = false;
  if (type == "mistral")
    config["sliding_window"] = model.window != 0 ? json(model.window) : json(nullptr);
  if (type == "qwen2" || type == "qwen3") {
    config["use_sliding_window"] = model.window != 0;
    config["sliding_window"] = model.window != 0 ? json(model.window) : json(nullptr);
    config["max_window_layers"] = model.window != 0 ? Index{0} : model.layers;
  }
  write_rope({.theta = model.rope_theta, .scaling = model.rope_scaling}, config);
  return config;
}

json token_json(const std::optional<Index>& token) {
  return token ? json(*token) : json(nullptr);
}

json end_json(const ExportedConfig& exported) {
  const std::vector<Index>& ends = exported.ends.empty() ? exported.tokens.ends : exported.ends;
  if (ends.empty()) return nullptr;
  return ends.size() == 1 ? json(ends.front()) : json(ends);
}

}  // namespace

json config_json(const shape::ModelConfig& model, const ExportedConfig& exported) {
  const bool is_gpt2 = model.architecture == "gpt2";
  expect(is_gpt2 || model.architecture == "llama",
         "models of the architecture '{}' have no form that transformers knows; export those of "
         "gpt2 or llama",
         model.architecture);
  json config = is_gpt2 ? gpt2_json(model) : llama_json(model);
  config["vocab_size"] = model.vocabulary;
  config["torch_dtype"] = exported.dtype == DType::kBF16 ? "bfloat16" : "float32";
  config["use_cache"] = true;
  config["bos_token_id"] = token_json(exported.tokens.begin);
  config["eos_token_id"] = end_json(exported);
  if (exported.tokens.padding) config["pad_token_id"] = *exported.tokens.padding;
  return config;
}

json generation_json(const ExportedConfig& exported) {
  ExportedConfig all = exported;
  for (const Index end : exported.tokens.ends)
    if (std::ranges::find(all.ends, end) == all.ends.end()) all.ends.push_back(end);
  json config{{"_from_model_config", true}};
  if (const json end = end_json(all); !end.is_null()) config["eos_token_id"] = end;
  return config;
}

json tokenizer_config_json(const std::string& end_of_text) {
  return {{"tokenizer_class", "PreTrainedTokenizerFast"},
          {"clean_up_tokenization_spaces", false},
          {"eos_token", end_of_text}};
}

}  // namespace dos::hf
