// SPDX-License-Identifier: Apache-2.0
#include "hf/adapter_config.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/json.hpp"
#include "base/json_field.hpp"
#include "base/nearest.hpp"
#include "shape/cutter.hpp"
#include "shape/family_shape.hpp"

namespace dos::hf {
namespace {

constexpr const char* kTargets = "lora.targets";
constexpr const char* kAllLinear = "all-linear";
constexpr const char* kAdapterRemedy =
    "use adapters that PEFT's save_pretrained() wrote, of kind LORA";

/// PEFT's choice (peft/utils/constants.py).
std::vector<std::string> usual_targets(const shape::ModelConfig& model) {
  if (model.architecture == "gpt2") return {"c_attn"};
  return {"q_proj", "v_proj"};
}

std::string last_part(const std::string& name) {
  return name.substr(name.rfind('.') + 1);
}

bool means(const std::string& name, const BlockMatrix& matrix) {
  return name == kAllLinear || name == matrix.theirs || matrix.theirs.ends_with("." + name);
}

/// Names of all that may have adapters, without those that are in the list already.
std::vector<std::string> names_of(const std::vector<BlockMatrix>& matrices) {
  std::vector<std::string> names;
  for (const BlockMatrix& matrix : matrices)
    if (std::ranges::find(names, last_part(matrix.theirs)) == names.end())
      names.push_back(last_part(matrix.theirs));
  names.emplace_back(kAllLinear);
  return names;
}

bool is_adapted(const shape::Adapters& adapters, const BlockMatrix& matrix) {
  const auto target = adapters.targets.find(matrix.ours);
  return target != adapters.targets.end() &&
         std::ranges::find(target->second, matrix.part) != target->second.end();
}

/// The adapted matrices as adapter_config.json names them: short, where no other matrix would be
/// meant, too.
std::set<std::string> target_modules(const shape::ModelConfig& model) {
  const std::vector<BlockMatrix> matrices = block_matrices(model);
  std::set<std::string> names;
  for (const BlockMatrix& matrix : matrices) {
    if (!is_adapted(model.adapters, matrix)) continue;
    const std::string name = last_part(matrix.theirs);
    const bool is_clear = std::ranges::all_of(matrices, [&](const BlockMatrix& other) {
      return !means(name, other) || is_adapted(model.adapters, other);
    });
    names.insert(is_clear ? name : matrix.theirs);
  }
  return names;
}

/// "mlp.up_proj" of "model.layers.3.mlp.up_proj": PEFT writes such names for all-linear. Where a
/// block lacks a module that another has, its tensors will be missing.
std::string without_block(const std::string& name) {
  std::size_t dot = name.find('.');
  while (dot != std::string::npos) {
    const std::size_t end = std::min(name.find('.', dot + 1), name.size());
    const std::string_view part = std::string_view(name).substr(dot + 1, end - dot - 1);
    const bool is_number = part.find_first_not_of("0123456789") == std::string_view::npos;
    if (is_number && !part.empty() && end < name.size()) return name.substr(end + 1);
    dot = end < name.size() ? end : std::string::npos;
  }
  return name;
}

std::string read_targets(const JsonField& field) {
  if (field.value().is_string()) {
    if (field.text() != kAllLinear)
      field.fail(fmt::format("is the pattern '{}': patterns are not read, lists of names are",
                             one_line(field.text())));
    return kAllLinear;
  }
  std::set<std::string> names;
  for (const JsonField& name : field.elements()) {
    const std::string text = name.text();
    if (text.empty() || text.find(',') != std::string::npos) name.fail("is no name of a module");
    names.insert(without_block(text));
  }
  if (names.empty()) field.fail("names no module");
  return fmt::format("{}", fmt::join(names, ","));
}

/// Keys that change nothing of what adapters compute here, sizes of what another key switches on
/// among them. There is no dropout in training.
constexpr std::array kIgnored{"peft_type",         "task_type",
                              "auto_mapping",      "peft_version",
                              "revision",          "base_model_name_or_path",
                              "inference_mode",    "lora_dropout",
                              "fan_in_fan_out",    "megatron_core",
                              "layers_pattern",    "init_lora_weights",
                              "runtime_config",    "loftq_config",
                              "qalora_group_size", "r",
                              "lora_alpha",        "target_modules",
                              "use_rslora",        "bias"};

/// With which the adapters belong to the model as it is: other ways to begin take out of its
/// matrices what they put into the adapters.
constexpr std::array kPlainStarts{"gaussian", "eva", "orthogonal"};

void expect_plain_start(const nlohmann::json& document, const JsonField& root) {
  if (!document.contains("init_lora_weights")) return;
  const JsonField field = root.member("init_lora_weights");
  if (field.value().is_null() || field.value().is_boolean()) return;
  const std::string start = field.text();
  if (std::ranges::find(kPlainStarts, start) == kPlainStarts.end())
    field.fail(
        fmt::format("is '{}', which changes the model's own matrices, or is not known: PEFT "
                    "makes plain adapters of it, save_pretrained(DIR, "
                    "path_initial_model_for_weight_conversion=...)",
                    one_line(start)));
}

/// Other keys ask for something else where they are set.
void expect_unset(const nlohmann::json& document, const JsonField& root) {
  for (const auto& [key, value] : document.items()) {
    if (std::ranges::find(kIgnored, key) != kIgnored.end()) continue;
    const bool is_unset = value.is_null() || value == false || value.empty();
    if (!is_unset)
      root.member(key).fail(fmt::format("is {}, which is not computed here", excerpt(value)));
  }
}

}  // namespace

std::map<std::string, std::vector<Index>> adapter_targets(const shape::ModelConfig& model,
                                                          const std::vector<std::string>& names) {
  const std::vector<BlockMatrix> matrices = block_matrices(model);
  std::map<std::string, std::vector<Index>> targets;
  const auto take = [&](const std::string& name) {
    bool is_known = false;
    for (const BlockMatrix& matrix : matrices) {
      if (!means(name, matrix)) continue;
      is_known = true;
      std::vector<Index>& parts = targets[matrix.ours];
      if (std::ranges::find(parts, matrix.part) == parts.end()) parts.push_back(matrix.part);
    }
    const std::vector<std::string> known = names_of(matrices);
    expect(is_known, "{}: '{}' matches no matrix of the model's blocks{}; known: {}", kTargets,
           one_line(name), did_you_mean(last_part(name), known), fmt::join(known, ", "));
  };
  std::ranges::for_each(names.empty() ? usual_targets(model) : names, take);
  for (auto& [module, parts] : targets) std::ranges::sort(parts);
  return targets;
}

std::vector<TensorName> adapter_tensors(const shape::ModelConfig& model) {
  const std::vector<BlockMatrix> matrices = block_matrices(model);
  std::vector<TensorName> names;
  for (const shape::ParameterSpec& spec :
       shape::find_family(model.architecture).parameters(model)) {
    if (!spec.is_adapter) continue;
    // "blocks.3.attention.qkv.lora_a.weight"
    const std::string pair = shape::module_of(spec.name);
    const bool is_down = pair.ends_with("_a");
    const std::string module = shape::module_of(pair);
    const std::size_t number = module.find('.') + 1;
    const std::size_t dot = module.find('.', number);
    const std::string prefix =
        "base_model.model." + block_prefix(model, module.substr(number, dot - number));
    Index first = 0;
    std::size_t part = 0;
    for (const BlockMatrix& matrix : matrices) {
      if (matrix.ours != module.substr(dot + 1) || !is_adapted(model.adapters, matrix)) continue;
      const Index rows = spec.parts[part++];
      names.push_back(
          {.tensor = prefix + matrix.theirs + (is_down ? ".lora_A.weight" : ".lora_B.weight"),
           .shape = {rows, spec.columns},
           .parameter = spec.name,
           .first = first});
      first += rows;
    }
    require(part == spec.parts.size(), "a tensor for each part of an adapter");
  }
  return names;
}

nlohmann::json adapter_json(const shape::ModelConfig& model, const std::string& base) {
  const shape::Adapters& adapters = model.adapters;
  require(adapters.any(), "a model with adapters");
  const bool is_whole = std::trunc(adapters.alpha) == adapters.alpha && adapters.alpha < 0x1p53;
  return {
      {"peft_type", "LORA"},
      {"task_type", "CAUSAL_LM"},
      {"base_model_name_or_path", base.empty() ? nlohmann::json(nullptr) : nlohmann::json(base)},
      {"r", adapters.rank},
      {"lora_alpha", is_whole ? nlohmann::json(static_cast<Index>(adapters.alpha))
                              : nlohmann::json(adapters.alpha)},
      {"lora_dropout", 0.0},
      {"use_rslora", adapters.by_root},
      {"target_modules", target_modules(model)},
      // GPT-2's matrices are [in, out] there.
      {"fan_in_fan_out", model.architecture == "gpt2"},
      {"bias", "none"},
      {"inference_mode", true},
      {"init_lora_weights", true},
      {"modules_to_save", nullptr}};
}

shape::AdapterChoice parse_adapter_config(std::string_view text,
                                          const std::filesystem::path& path) {
  const nlohmann::json document = parse_json_object(text, path.string(), kAdapterRemedy);
  const JsonField root(document, path.string(), kAdapterRemedy);
  const JsonField kind = root.member("peft_type");
  if (kind.text() != "LORA") kind.fail(fmt::format("is '{}'", one_line(kind.text())));
  if (document.contains("bias") && root.member("bias").text() != "none")
    root.member("bias").fail("is not 'none': biases are not trained beside adapters here");
  expect_plain_start(document, root);
  expect_unset(document, root);
  shape::AdapterChoice choice{.rank = root.member("r").index(),
                              .alpha = root.member("lora_alpha").number(),
                              .targets = read_targets(root.member("target_modules"))};
  if (choice.rank < 1) root.member("r").fail("must be at least 1");
  if (!(choice.alpha > 0)) root.member("lora_alpha").fail("must be above 0");
  if (document.contains("use_rslora")) choice.rslora = root.member("use_rslora").truth();
  return choice;
}

shape::AdapterChoice read_adapter_config(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kAdapterConfigFile;
  std::error_code ignored;
  expect(std::filesystem::exists(path, ignored),
         "{}: does not exist; name a folder that PEFT's save_pretrained() wrote", path.string());
  return parse_adapter_config(read_text(path), path);
}

}  // namespace dos::hf
