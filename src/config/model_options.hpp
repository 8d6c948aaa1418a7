// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

#include "config/keys.hpp"
#include "config/option.hpp"
#include "models/family.hpp"

namespace dos::config {

/// The keys that say which model it is, in the order of --help.
inline constexpr std::array kModelOptions{
    Option{"model.preset",
           {"named shape: ",
            [] { return fmt::format("{}", fmt::join(models::preset_names(), ", ")); }},
           [](Keys& k) -> Value { return &k.model.preset; },
           Named{&models::preset_names,
                 [](const std::string& name) { static_cast<void>(models::find_preset(name)); }}},
    Option{"model.layers", "transformer blocks; 0: the preset's",
           [](Keys& k) -> Value { return &k.model.layers; }, kModelSize},
    Option{"model.width", "size of the residual stream; 0: the preset's",
           [](Keys& k) -> Value { return &k.model.width; }, kModelSize},
    Option{"model.heads", "attention heads, a divisor of the width; 0: the preset's",
           [](Keys& k) -> Value { return &k.model.heads; }, kModelSize},
    Option{"model.context", "tokens a sequence; 0: the preset's",
           [](Keys& k) -> Value { return &k.model.context; }, kModelSize},
    Option{"model.vocab", "vocabulary; 0: the data set's, else the preset's",
           [](Keys& k) -> Value { return &k.model.vocab; }, kModelSize},
    Option{"model.positions", "rows of the table of positions (gpt2); 0: as many as the context",
           [](Keys& k) -> Value { return &k.model.positions; }, kModelSize},
    Option{"model.kv_heads",
           "heads of keys and values, a divisor of the heads (llama); 0: the preset's",
           [](Keys& k) -> Value { return &k.model.kv_heads; }, kModelSize},
    Option{"model.ffn", "inner width of the MLP (llama); 0: the preset's",
           [](Keys& k) -> Value { return &k.model.ffn; }, kModelSize},
    Option{"model.head_dim", "elements of a head, even (llama); 0: the preset's, or width / heads",
           [](Keys& k) -> Value { return &k.model.head_dim; }, kModelSize},
    Option{"model.rope_theta", "base of the rotary embeddings (llama); 0: the preset's",
           [](Keys& k) -> Value { return &k.model.rope_theta; }, kNotNegative},
    Option{"model.rope_factor",
           "how much slower low frequencies turn than the model first learned (llama); 1: no "
           "slower; 0: the preset's",
           [](Keys& k) -> Value { return &k.model.rope_factor; }, kNotNegative},
    Option{"model.rope_low_freq",
           "turns in rope_context tokens up to which a frequency is low; 0: the preset's",
           [](Keys& k) -> Value { return &k.model.rope_low_freq; }, kNotNegative},
    Option{"model.rope_high_freq",
           "turns in rope_context tokens from which a frequency stays; 0: the preset's",
           [](Keys& k) -> Value { return &k.model.rope_high_freq; }, kNotNegative},
    Option{"model.rope_context", "context that the model first learned; 0: the preset's",
           [](Keys& k) -> Value { return &k.model.rope_context; }, kModelSize},
    Option{"model.norm_eps", "added to the mean square in norms (llama); 0: the preset's",
           [](Keys& k) -> Value { return &k.model.norm_eps; }, kNotNegative},
    Option{"model.window",
           "tokens that one attends to, itself the last (llama); -1: all; 0: the preset's",
           [](Keys& k) -> Value { return &k.model.window; },
           Range{.least = -1, .words = "be at least 1 (0: the preset's, -1: all tokens)"}},
    Option{"model.tied_head",
           "on: the token table makes the logits (llama); off: a matrix of its own; preset",
           [](Keys& k) -> Value { return &k.model.tied_head; }, kPresetFlag},
    Option{"model.qkv_bias", "on: queries, keys and values have a bias (llama); off; preset",
           [](Keys& k) -> Value { return &k.model.qkv_bias; }, kPresetFlag},
    Option{"model.qk_norm", "on: each head of queries and keys is normalised (llama); off; preset",
           [](Keys& k) -> Value { return &k.model.qk_norm; }, kPresetFlag},
    Option{"lora.rank",
           "rank of adapters, which are trained in place of the model's own parameters; 0: none",
           [](Keys& k) -> Value { return &k.lora.rank; },
           at_least(0),
           Scope::kRun,
           {"rank of adapters, which alone are trained; 0: none",
            [](planner::PlanSettings& s, Index rank) { s.lora.rank = rank; }, at_least(0)}},
    Option{"lora.alpha",
           "what adapters give is multiplied by alpha / rank",
           [](Keys& k) -> Value { return &k.lora.alpha; },
           kPositive,
           Scope::kRun,
           {"as train_gpt; it costs nothing",
            [](planner::PlanSettings& s, double alpha) { s.lora.alpha = alpha; }, kPositive}},
    Option{"lora.targets",
           "comma-separated modules that have adapters, by their names in Hugging Face folders, as "
           "q_proj,v_proj or c_attn, or all-linear; empty: as PEFT, q_proj,v_proj or c_attn",
           [](Keys& k) -> Value { return &k.lora.targets; },
           list("hf::adapter_targets() reads it"),
           Scope::kRun,
           {"modules that have adapters, as train_gpt",
            [](planner::PlanSettings& s, const std::string& names) { s.lora.targets = names; },
            Any{"hf::adapter_targets() reads it"}}},
    Option{"lora.rslora",
           "multiply by alpha / sqrt(rank) instead (rank-stabilised)",
           [](Keys& k) -> Value { return &k.lora.rslora; },
           kFlag,
           Scope::kRun,
           {"as train_gpt; it costs nothing",
            [](planner::PlanSettings& s, bool yes) { s.lora.rslora = yes; }, kFlag}},
};

}  // namespace dos::config
