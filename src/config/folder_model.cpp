// SPDX-License-Identifier: Apache-2.0
#include "config/folder_model.hpp"

#include <algorithm>
#include <string_view>

#include "base/error.hpp"
#include "models/family.hpp"
#include "shape/family_shape.hpp"

namespace dos::config {
namespace {

constexpr const char* kPreset = "model.preset";
constexpr const char* kContext = "model.context";

std::string flag_word(bool is_on) {
  return is_on ? "on" : "off";
}

/// Any: all that a preset may leave open is said.
std::string preset_of(const std::string& architecture) {
  for (const std::string& name : models::preset_names())
    if (models::find_preset(name).architecture == architecture) return name;
  fail("no preset of the architecture '{}' stands for its models", architecture);
}

std::vector<Key> model_keys(Keys& keys) {
  std::vector<Key> all = keys_of(keys);
  std::erase_if(all, [](const Key& key) { return !key.name.starts_with("model."); });
  return all;
}

/// The first key of `given` that is said and says something else than `wanted`.
std::optional<std::string> contradiction(Keys given, Keys wanted, bool may_shorten) {
  Keys unsaid;
  unsaid.model.preset.clear();
  const std::vector<Key> mine = model_keys(given);
  const std::vector<Key> others = model_keys(wanted);
  const std::vector<Key> defaults = model_keys(unsaid);
  for (std::size_t i = 0; i < mine.size(); ++i) {
    const std::string value = value_text(mine[i]);
    if (value == value_text(defaults[i]) || value == value_text(others[i])) continue;
    if (mine[i].name == kPreset) continue;
    if (mine[i].name == kContext && may_shorten && given.model.context < wanted.model.context)
      continue;
    return fmt::format("{} = {}, but the folder's model has {}", mine[i].name, value,
                       value_text(others[i]));
  }
  return std::nullopt;
}

}  // namespace

Keys::Model keys_of_model(const shape::ModelConfig& model) {
  static_cast<void>(models::find_family(model.architecture));
  Keys::Model keys;
  keys.preset = preset_of(model.architecture);
  keys.layers = model.layers;
  keys.width = model.width;
  keys.heads = model.heads;
  keys.context = model.context;
  keys.vocab = model.vocabulary;
  if (shape::has_position_table(model)) {
    keys.positions = model.position_rows();
    return keys;
  }
  keys.kv_heads = model.key_heads();
  keys.ffn = model.ffn;
  keys.head_dim = model.head_size();
  keys.rope_theta = model.rope_theta;
  keys.rope_factor = model.rope_scaling.factor;
  keys.rope_low_freq = model.rope_scaling.low_freq_factor;
  keys.rope_high_freq = model.rope_scaling.high_freq_factor;
  keys.rope_context = model.rope_scaling.original_context;
  keys.norm_eps = model.norm_epsilon;
  keys.window = model.window == 0 ? -1 : model.window;
  keys.tied_head = flag_word(model.tied_head);
  keys.qkv_bias = flag_word(model.qkv_bias);
  keys.qk_norm = flag_word(model.qk_norm);
  return keys;
}

void take_folder_model(const shape::ModelConfig& model, const std::string& folder,
                       TrainConfig& config) {
  Keys wanted;
  wanted.model = keys_of_model(model);
  std::optional<std::string> found = contradiction(config, wanted, /*may_shorten=*/true);
  if (!found && !config.model.preset.empty()) {
    Keys preset;
    preset.model = keys_of_model(models::find_preset(config.model.preset));
    found = contradiction(preset, wanted, /*may_shorten=*/false);
    if (found) found = fmt::format("{} = {} has {}", kPreset, config.model.preset, *found);
  }
  expect(!found, "{}: {}: leave it out", folder, found.value_or(""));
  const Index context = config.model.context;
  config.model = wanted.model;
  if (context != 0) config.model.context = context;
}

void take_folder_adapters(const shape::AdapterChoice& adapters, const std::string& folder,
                          TrainConfig& config) {
  Keys wanted;
  wanted.lora = adapters;
  Keys unsaid;
  Keys given = config;
  const std::vector<Key> mine = keys_of(given);
  const std::vector<Key> theirs = keys_of(wanted);
  const std::vector<Key> defaults = keys_of(unsaid);
  for (std::size_t i = 0; i < mine.size(); ++i) {
    const std::string value = value_text(mine[i]);
    const bool is_said = value != value_text(defaults[i]) && value != value_text(theirs[i]);
    expect(!mine[i].name.starts_with("lora.") || !is_said,
           "{}: {} = {}, but the folder's adapters have {}: leave it out", folder, mine[i].name,
           value, value_text(theirs[i]));
  }
  config.lora = adapters;
}

}  // namespace dos::config
