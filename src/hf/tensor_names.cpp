// SPDX-License-Identifier: Apache-2.0
#include "hf/tensor_names.hpp"

#include <fmt/format.h>

#include <array>
#include <functional>
#include <numeric>
#include <span>

#include "base/error.hpp"
#include "shape/family_shape.hpp"

namespace dos::hf {
namespace {

/// A module of a model and the modules of a folder that its rows are, one behind the other. Those
/// of blocks have the block's prefix before them.
struct ModuleName {
  const char* ours;
  std::vector<const char*> theirs;
  bool is_transposed = false;
};

struct FamilyNames {
  const char* architecture;
  const char* block;  ///< their prefix of block {}
  std::vector<ModuleName> modules;
};

constexpr std::string_view kOurBlocks = "blocks.";

const std::vector<FamilyNames>& families() {
  static const std::vector<FamilyNames> list{
      {"gpt2",
       "transformer.h.{}.",
       {{"token_embedding", {"transformer.wte"}},
        {"position_embedding", {"transformer.wpe"}},
        {"norm1", {"ln_1"}},
        {"attention.qkv", {"attn.c_attn"}, /*is_transposed=*/true},
        {"attention.projection", {"attn.c_proj"}, /*is_transposed=*/true},
        {"norm2", {"ln_2"}},
        {"mlp.up", {"mlp.c_fc"}, /*is_transposed=*/true},
        {"mlp.down", {"mlp.c_proj"}, /*is_transposed=*/true},
        {"final_norm", {"transformer.ln_f"}}}},
      {"llama",
       "model.layers.{}.",
       {{"token_embedding", {"model.embed_tokens"}},
        {"norm1", {"input_layernorm"}},
        {"attention.qkv", {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"}},
        {"attention.head_norm", {"self_attn.q_norm", "self_attn.k_norm"}},
        {"attention.projection", {"self_attn.o_proj"}},
        {"norm2", {"post_attention_layernorm"}},
        {"mlp.gate_up", {"mlp.gate_proj", "mlp.up_proj"}},
        {"mlp.down", {"mlp.down_proj"}},
        {"final_norm", {"model.norm"}},
        {"head", {"lm_head"}}}}};
  return list;
}

const FamilyNames& names_of(const std::string& architecture) {
  for (const FamilyNames& family : families())
    if (family.architecture == architecture) return family;
  fail("models of the architecture '{}' have no form that transformers knows; use gpt2 or llama",
       architecture);
}

/// A parameter's name taken apart: "blocks.3.norm1.weight".
struct ParsedName {
  std::string block;   ///< "3"; "" outside of blocks
  std::string module;  ///< "norm1"
  std::string leaf;    ///< ".weight"
};

ParsedName parse(std::string_view name) {
  ParsedName parsed;
  if (name.starts_with(kOurBlocks)) {
    name.remove_prefix(kOurBlocks.size());
    const std::size_t dot = name.find('.');
    parsed.block = name.substr(0, dot);
    name.remove_prefix(dot + 1);
  }
  const std::size_t dot = name.rfind('.');
  parsed.module = name.substr(0, dot);
  parsed.leaf = name.substr(dot);
  return parsed;
}

const ModuleName& find_module(const FamilyNames& family, const std::string& module) {
  for (const ModuleName& known : family.modules)
    if (known.ours == module) return known;
  require(false, "every parameter of the family has a name in folders");
  return family.modules.front();
}

std::vector<Index> shape_of(const shape::ParameterSpec& spec, Index rows, bool is_transposed) {
  if (!spec.is_matrix()) return {rows};
  if (is_transposed) return {spec.columns, rows};
  return {rows, spec.columns};
}

}  // namespace

Index TensorName::count() const {
  return std::accumulate(shape.begin(), shape.end(), Index{1}, std::multiplies<>());
}

std::vector<TensorName> tensor_names(const shape::ModelConfig& model) {
  const FamilyNames& family = names_of(model.architecture);
  std::vector<TensorName> names;
  for (const shape::ParameterSpec& spec :
       shape::find_family(model.architecture).parameters(model.base())) {
    const ParsedName parsed = parse(spec.name);
    const ModuleName& module = find_module(family, parsed.module);
    const std::string prefix =
        parsed.block.empty() ? "" : fmt::format(fmt::runtime(family.block), parsed.block);
    std::vector<Index> parts = spec.parts;
    if (parts.empty()) parts = {spec.shape().front()};
    require(parts.size() == module.theirs.size(), "a tensor for each part of a parameter");
    const bool is_transposed = module.is_transposed && spec.is_matrix();
    Index first = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      names.push_back({.tensor = prefix + module.theirs[i] + parsed.leaf,
                       .shape = shape_of(spec, parts[i], is_transposed),
                       .parameter = spec.name,
                       .first = first,
                       .is_transposed = is_transposed});
      first += parts[i];
    }
  }
  return names;
}

std::vector<BlockMatrix> block_matrices(const shape::ModelConfig& model) {
  const FamilyNames& family = names_of(model.architecture);
  constexpr Index kFirstBlock = 1;
  std::vector<BlockMatrix> matrices;
  for (const shape::ParameterSpec& spec :
       shape::find_family(model.architecture).parameters(model.base())) {
    if (spec.depth != kFirstBlock || !spec.is_matrix()) continue;
    const std::string module = parse(spec.name).module;
    const std::vector<const char*>& theirs = find_module(family, module).theirs;
    for (std::size_t part = 0; part < theirs.size(); ++part)
      matrices.push_back({theirs[part], module, static_cast<Index>(part)});
  }
  return matrices;
}

std::string block_prefix(const shape::ModelConfig& model, const std::string& block) {
  return fmt::format(fmt::runtime(names_of(model.architecture).block), block);
}

std::string_view without_prefix(std::string_view name) {
  for (const std::string_view prefix : {"transformer.", "model."})
    if (name.starts_with(prefix)) return name.substr(prefix.size());
  return name;
}

bool is_constant(std::string_view name) {
  constexpr std::array<std::string_view, 3> kConstants{".attn.bias", ".attn.masked_bias",
                                                       ".rotary_emb.inv_freq"};
  for (const std::string_view ending : kConstants)
    if (name.ends_with(ending)) return true;
  return false;
}

}  // namespace dos::hf
