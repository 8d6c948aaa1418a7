// SPDX-License-Identifier: Apache-2.0
#include "hf/config_json.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <functional>
#include <system_error>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/json.hpp"
#include "base/nearest.hpp"
#include "hf/json_keys.hpp"
#include "hf/rope_json.hpp"
#include "shape/family_shape.hpp"

namespace dos::hf {
namespace {

constexpr const char* kRemedy = "use a model that docs/huggingface.md lists";

/// What a kind of model takes for a key that its config.json leaves out, as transformers does, and
/// which of the keys it has.
struct LlamaKind {
  const char* name;
  Index key_heads;  ///< 0: as many as heads
  Index head_dim;   ///< 0: width / heads
  std::optional<Index> window;
  bool has_layer_types;  ///< use_sliding_window, max_window_layers, layer_types
  bool reads_biases;     ///< attention_bias, which is of the projection, too, or may say so
  bool qkv_bias;
  bool qk_norm;
};
constexpr std::array kLlamaKinds{LlamaKind{"llama", 0, 0, std::nullopt, false, true, false, false},
                                 LlamaKind{"mistral", 8, 0, 4096, false, true, false, false},
                                 LlamaKind{"qwen2", 32, 0, 4096, true, false, true, false},
                                 LlamaKind{"qwen3", 32, 128, 4096, true, true, false, true}};

constexpr double kGpt2Epsilon = 1e-5;

/// Keys that every kind may have, and that change nothing of the model: what generation and other
/// heads read, where the model came from, dropout, which training here never has.
void ignore_common(JsonKeys& keys) {
  keys.ignore({"model_type",
               "transformers_version",
               "_name_or_path",
               "_num_labels",
               "_attn_implementation",
               "_attn_implementation_autoset",
               "torch_dtype",
               "dtype",
               "torchscript",
               "use_bfloat16",
               "use_cache",
               "gradient_checkpointing",
               "initializer_range",
               "bos_token_id",
               "eos_token_id",
               "pad_token_id",
               "unk_token_id",
               "sep_token_id",
               "cls_token_id",
               "decoder_start_token_id",
               "tokenizer_class",
               "prefix",
               "return_dict",
               "return_dict_in_generate",
               "output_hidden_states",
               "output_attentions",
               "output_scores",
               "chunk_size_feed_forward",
               "id2label",
               "label2id",
               "num_labels",
               "problem_type",
               "finetuning_task",
               "task_specific_params",
               "tf_legacy_loss",
               "is_decoder",
               "attention_dropout",
               "pretraining_tp",
               "is_llama_config",
               "unsloth_fixed",
               "unsloth_version",
               "transformers.js_config"});
  keys.ignore({"max_length",
               "min_length",
               "do_sample",
               "early_stopping",
               "num_beams",
               "num_beam_groups",
               "diversity_penalty",
               "temperature",
               "top_k",
               "top_p",
               "typical_p",
               "repetition_penalty",
               "length_penalty",
               "no_repeat_ngram_size",
               "encoder_no_repeat_ngram_size",
               "bad_words_ids",
               "num_return_sequences",
               "forced_bos_token_id",
               "forced_eos_token_id",
               "remove_invalid_values",
               "exponential_decay_length_penalty",
               "suppress_tokens",
               "begin_suppress_tokens"});
  constexpr const char* kDecoder = "only decoders are trained here";
  keys.expect_value("is_encoder_decoder", false, kDecoder);
  keys.expect_value("add_cross_attention", false, kDecoder);
  keys.expect_value("cross_attention_hidden_size", nullptr, kDecoder);
  keys.expect_value("tie_encoder_decoder", false, kDecoder);
  keys.expect_value("pruned_heads", nlohmann::json::object(), "every block has the same heads");
}

/// The classes that a checkpoint may be of: the bare decoder, or the one with logits. Others have
/// heads that would be lost.
void expect_architectures(JsonKeys& keys, const std::vector<std::string>& known) {
  const std::optional<JsonField> field = keys.find("architectures");
  if (!field) return;
  for (const JsonField& element : field->elements()) {
    const std::string name = element.text();
    if (std::ranges::find(known, name) == known.end())
      element.fail(fmt::format("is '{}', known: {}", one_line(name), fmt::join(known, ", ")));
  }
}

void expect_activation(JsonKeys& keys, const char* key, const std::string& otherwise,
                       const std::vector<std::string>& known) {
  const std::string name = keys.text_or(key, otherwise);
  if (std::ranges::find(known, name) != known.end()) return;
  keys.find(key)->fail(fmt::format("is '{}', known: {}", one_line(name), fmt::join(known, ", ")));
}

shape::ModelConfig read_gpt2(JsonKeys& keys) {
  shape::ModelConfig model;
  model.architecture = "gpt2";
  model.layers = keys.index("n_layer");
  model.width = keys.index("n_embd");
  model.heads = keys.index("n_head");
  model.context = keys.index("n_positions");
  model.vocabulary = keys.index("vocab_size");
  keys.expect_value("n_ctx", model.context, "n_positions says otherwise");
  keys.expect_value("n_inner", 4 * model.width, "the MLP of GPT-2 has four times the width");
  keys.expect_value("layer_norm_epsilon", kGpt2Epsilon, "the norms here have that one");
  keys.expect_value("scale_attn_weights", true, "attention here divides by the root of a head");
  keys.expect_value("scale_attn_by_inverse_layer_idx", false,
                    "attention is the same in all blocks");
  keys.expect_value("tie_word_embeddings", true, "the token table of GPT-2 makes the logits");
  expect_activation(keys, "activation_function", "gelu_new",
                    {"gelu_new", "gelu_pytorch_tanh", "gelu_fast"});
  expect_architectures(keys, {"GPT2LMHeadModel", "GPT2Model"});
  // The first folders of GPT-2 have the last three.
  keys.ignore({"attn_pdrop", "embd_pdrop", "resid_pdrop", "reorder_and_upcast_attn", "summary_type",
               "summary_use_proj", "summary_activation", "summary_proj_to_labels",
               "summary_first_dropout", "n_special", "predict_special_tokens", "output_past"});
  return model;
}

/// Whether the blocks see a window only. Throws Error where some do and others do not.
bool layers_have_window(JsonKeys& keys, Index layers, bool is_used) {
  const Index first = keys.index_or("max_window_layers", is_used ? 28 : layers);
  const std::optional<JsonField> types = keys.find("layer_types");
  std::vector<bool> windowed;
  if (types) {
    for (const JsonField& element : types->elements()) {
      const std::string type = element.text();
      windowed.push_back(type == "sliding_attention");
      if (type != "full_attention" && type != "sliding_attention")
        element.fail(
            fmt::format("is '{}', known: full_attention, sliding_attention", one_line(type)));
      if (windowed.back() && !is_used)
        element.fail("has a window, but use_sliding_window is false");
    }
    if (std::ssize(windowed) != layers)
      types->fail(
          fmt::format("has {} entries, but num_hidden_layers is {}", windowed.size(), layers));
  } else {
    for (Index layer = 0; layer < std::min<Index>(layers, 2); ++layer)
      windowed.push_back(is_used && (layer == 0 ? first <= 0 : first < layers));
  }
  const auto count = std::ranges::count(windowed, true);
  if (count != 0 && count != std::ssize(windowed)) {
    const auto field = types ? types : keys.find("max_window_layers");
    constexpr const char* kMixed = "gives some blocks a window and others none, which is not known";
    if (!field) fail("max_window_layers is 28, where it is left out: {}", kMixed);
    field->fail(kMixed);
  }
  return count != 0;
}

Index read_window(JsonKeys& keys, const LlamaKind& kind, Index layers) {
  if (!kind.window) {
    keys.expect_value("sliding_window", nullptr, "models of this type have no window");
    keys.expect_value("use_sliding_window", false, "models of this type have no window");
    return 0;
  }
  // Null is no window: another thing than a key that is left out.
  const bool is_said = keys.has("sliding_window");
  const std::optional<JsonField> field = keys.find("sliding_window");
  const Index window = field ? field->index() : (is_said ? 0 : *kind.window);
  if (field && window == 0) field->fail("must be at least 1, or null");
  if (!kind.has_layer_types) return window;
  const bool is_used = keys.truth_or("use_sliding_window", false) && window != 0;
  return layers_have_window(keys, layers, is_used) ? window : 0;
}

/// A size that may be left out, or null.
Index size_or(JsonKeys& keys, const char* key, Index otherwise) {
  const std::optional<JsonField> field = keys.find(key);
  const Index size = field ? field->index() : otherwise;
  if (field && size == 0) field->fail("must be at least 1, or null");
  return size;
}

shape::ModelConfig read_llama(JsonKeys& keys, const LlamaKind& kind, const std::string& prefix) {
  shape::ModelConfig model;
  model.architecture = "llama";
  model.layers = keys.index("num_hidden_layers");
  model.width = keys.index("hidden_size");
  model.heads = keys.index("num_attention_heads");
  model.context = keys.index("max_position_embeddings");
  model.vocabulary = keys.index("vocab_size");
  model.ffn = keys.index("intermediate_size");
  // Null stands for as many as heads in every kind.
  const Index key_heads =
      keys.has("num_key_value_heads") || kind.key_heads == 0 ? model.heads : kind.key_heads;
  model.kv_heads = size_or(keys, "num_key_value_heads", key_heads);
  const Index own = model.heads > 0 ? model.width / model.heads : 0;
  const bool has_own = keys.has("head_dim") || kind.head_dim == 0;
  if (has_own && !keys.find("head_dim") && model.heads > 0 && model.width % model.heads != 0)
    fail("num_attention_heads = {} does not divide hidden_size = {}", model.heads, model.width);
  model.head_dim = size_or(keys, "head_dim", has_own ? own : kind.head_dim);
  model.norm_epsilon = keys.number_or("rms_norm_eps", 1e-6);
  model.tied_head = keys.truth_or("tie_word_embeddings", false);
  model.qkv_bias = kind.qkv_bias;
  model.qk_norm = kind.qk_norm;
  model.window = read_window(keys, kind, model.layers);
  const Rope rope = read_rope(keys);
  model.rope_theta = rope.theta;
  model.rope_scaling = rope.scaling;
  expect_activation(keys, "hidden_act", "silu", {"silu", "swish"});
  expect_architectures(keys, {prefix + "ForCausalLM", prefix + "Model"});
  if (kind.reads_biases)
    keys.expect_value("attention_bias", false, "the projection of attention has no bias here");
  keys.expect_value("mlp_bias", false, "the MLP has no bias here");
  keys.expect_value("use_mrope", false, "rotary embeddings have one position a token here");
  keys.expect_value("max_sequence_length", model.context, "max_position_embeddings says otherwise");
  keys.expect_value("rope_interleaved", false, "element i of a head turns with element i + d/2");
  return model;
}

const LlamaKind* find_kind(const std::string& name) {
  for (const LlamaKind& kind : kLlamaKinds)
    if (kind.name == name) return &kind;
  return nullptr;
}

/// "Llama" of "llama".
std::string class_prefix(std::string name) {
  name.front() = static_cast<char>(name.front() - 'a' + 'A');
  return name;
}

shape::ModelConfig read_model(JsonKeys& keys, const JsonField& root) {
  const std::string type = root.member("model_type").text();
  ignore_common(keys);
  shape::ModelConfig model;
  if (type == "gpt2") {
    model = read_gpt2(keys);
  } else if (const LlamaKind* kind = find_kind(type)) {
    model = read_llama(keys, *kind, class_prefix(type));
  } else {
    const std::vector<std::string> known = known_model_types();
    root.member("model_type")
        .fail(fmt::format("is '{}'{}, known: {}", one_line(type), did_you_mean(type, known),
                          fmt::join(known, ", ")));
  }
  keys.expect_all_read();
  shape::validate(model);
  return model;
}

}  // namespace

std::vector<std::string> known_model_types() {
  std::vector<std::string> names{"gpt2"};
  for (const LlamaKind& kind : kLlamaKinds) names.emplace_back(kind.name);
  return names;
}

shape::ModelConfig parse_config(std::string_view text, const std::filesystem::path& path) {
  const std::string place = path.string();
  const nlohmann::json document = parse_json_object(text, place, kRemedy);
  const JsonField root(document, place, kRemedy);
  JsonKeys keys(root);
  try {
    return read_model(keys, root);
  } catch (const Error& error) {
    // What the shape or two keys together say does not name the file yet.
    const std::string_view what = error.what();
    if (what.starts_with(place)) throw;
    fail("{}: {}; {}", place, what, kRemedy);
  }
}

shape::ModelConfig read_config(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kConfigFile;
  std::error_code ignored;
  expect(std::filesystem::status(path, ignored).type() != std::filesystem::file_type::not_found,
         "{}: does not exist; name a folder that save_pretrained() of transformers wrote",
         path.string());
  return parse_config(read_text(path), path);
}

}  // namespace dos::hf
