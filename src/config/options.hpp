// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <string>

#include "config/option.hpp"
#include "models/family.hpp"
#include "optim/optimizer_options.hpp"
#include "optim/rules.hpp"
#include "optim/schedule.hpp"

namespace dos::config {

/// The values of a training, with their defaults. The key "section.name" is the member
/// section.name; kOptions below says all else of it. The table of options is this file.
struct Keys {
  struct Model {
    std::string preset = "small-3m";
    Index layers = 0;
    Index width = 0;
    Index heads = 0;
    Index context = 0;
    Index vocab = 0;
    Index kv_heads = 0;
    Index ffn = 0;
    Index head_dim = 0;
    double rope_theta = 0;
    double rope_factor = 0;
    double rope_low_freq = 0;
    double rope_high_freq = 0;
    Index rope_context = 0;
    double norm_eps = 0;
    Index window = 0;
    std::string tied_head = "preset";
    std::string qkv_bias = "preset";
    std::string qk_norm = "preset";
  } model;
  struct Data {
    std::string path;
    std::string sources;
  } data;
  struct Train {
    Index steps = 1000;
    Index stop_after = 0;
    Index batch = 8;
    Index accumulate = 1;
    Index lanes = 0;
    Index workers = 0;
    Index opencl_devices = 0;
    Index cuda_devices = -1;
    double gpu_memory = 0;
    std::string fit = "error";
    double stall_timeout_s = 60;
    Index seed = 1337;
    std::string precision = "fp32";
    std::string gradient_precision = "fp32";
    bool recompute = false;
    Index logits_rows = 512;
    Index run_ahead = 2;
    Index validate_every = 100;
    Index validate_batches = 8;
    Index checkpoint_every = 0;
    Index keep = 1;
    Index log_every = 10;
  } train;
  struct Optim {
    std::string rule = "adamw";
    double lr = 6e-4;
    double final_lr_ratio = 0.1;
    Index warmup = 50;
    std::string schedule = "cosine";
    double weight_decay = 0.1;
    bool decay_vectors = false;
    bool decay_embeddings = false;
    std::string no_decay;
    std::string freeze;
    std::string lr_factors;
    double beta1 = 0.9;
    double beta2 = 0.95;
    double momentum = 0.9;
    double eps = 1e-8;
    double clip = 1.0;
  } optim;
  struct Sched {
    Index subgroup_params = 5'000'000;
    Index stride = 0;
    double share = -1;
    Index window = 0;
    bool resident = true;
    bool fallback = true;
  } sched;
  struct Dist {
    Index zero = 1;
    std::string weights;
    std::string gpu_messages = "auto";
    double timeout_s = 60;
  } dist;
};

inline constexpr Any kFlag{"both values mean something"};
inline constexpr Range kModelSize{.least = 0, .words = "be at least 1 (or 0: the preset's)"};
/// A flag of the model that is the preset's unless it is said.
inline constexpr Choice kPresetFlag{"preset", "on", "off"};
/// Far above what is of use; the program keeps lists of these lengths.
inline constexpr double kMostDevices = 1'000;
inline constexpr Choice kPrecision{"fp32", "bf16"};

/// The keys, in the order of --help.
inline constexpr std::array kOptions{
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
    Option{"model.kv_heads",
           "heads of keys and values, a divisor of the heads (llama); 0: the preset's",
           [](Keys& k) -> Value { return &k.model.kv_heads; }, kModelSize},
    Option{"model.ffn", "inner width of the MLP (llama); 0: the preset's",
           [](Keys& k) -> Value { return &k.model.ffn; }, kModelSize},
    Option{"model.head_dim",
           "elements of a head, even (llama); 0: the preset's, else width / heads",
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
    Option{"data.path", "prefix PREFIX of PREFIX_train.bin, PREFIX_val.bin (prepare_data)",
           [](Keys& k) -> Value { return &k.data.path; }, Any{"files are looked for there"},
           Scope::kNode},
    Option{"data.sources",
           "instead of data.path: several prefixes with their parts of the samples, "
           "PREFIX:WEIGHT,PREFIX:WEIGHT",
           [](Keys& k) -> Value { return &k.data.sources; }, Any{"files are looked for there"},
           Scope::kNode},
    Option{"train.steps", "optimizer steps of the whole run",
           [](Keys& k) -> Value { return &k.train.steps; }, at_least(1)},
    Option{"train.stop_after",
           "stop after this step with a checkpoint, schedule unchanged; 0: run to the end",
           [](Keys& k) -> Value { return &k.train.stop_after; }, at_least(0)},
    Option{"train.batch", "sequences of a micro-batch",
           [](Keys& k) -> Value { return &k.train.batch; }, at_least(1)},
    Option{"train.accumulate", "micro-batches a step",
           [](Keys& k) -> Value { return &k.train.accumulate; }, at_least(1)},
    Option{"train.lanes",
           "slices of a micro-batch that run side by side; they order the sums; 0: one a CUDA "
           "device, without one a CPU worker",
           [](Keys& k) -> Value { return &k.train.lanes; }, between(0, 1'000)},
    Option{"train.workers", "CPU workers; 0: one a core",
           [](Keys& k) -> Value { return &k.train.workers; }, between(0, 100'000), Scope::kNode},
    Option{"train.opencl_devices",
           "OpenCL devices that may update, a core each; -1: all; CPUs count with "
           "STARPU_OPENCL_ON_CPUS=1",
           [](Keys& k) -> Value { return &k.train.opencl_devices; }, between(-1, kMostDevices),
           Scope::kNode},
    Option{"train.cuda_devices", "CUDA devices to use, a core each; -1: all",
           [](Keys& k) -> Value { return &k.train.cuda_devices; }, between(-1, kMostDevices),
           Scope::kNode},
    Option{"train.gpu_memory",
           "GB that a run may use of each device with a memory of its own; 0: what is there; with "
           "--dry-run also of GPUs that this machine lacks",
           [](Keys& k) -> Value { return &k.train.gpu_memory; },
           Range{.least = 0, .most = 1e6, .note = " GB"}},
    Option{"train.fit",
           "where memory is short: error, or auto: smaller micro-batches (and more of them), then "
           "recomputation",
           [](Keys& k) -> Value { return &k.train.fit; }, Choice{"error", "auto"}},
    Option{"train.stall_timeout_s",
           "seconds without a running task after which a run with devices ends, as one has no "
           "memory for the next task or message",
           [](Keys& k) -> Value { return &k.train.stall_timeout_s; }, at_least(1)},
    Option{"train.seed", "seed of initialisation and of the order of the data",
           [](Keys& k) -> Value { return &k.train.seed; }, at_least(0)},
    Option{"train.precision",
           "type of working parameters, activations and their gradients: fp32, bf16; master "
           "parameters and states are fp32",
           [](Keys& k) -> Value { return &k.train.precision; },
           kPrecision,
           Scope::kRun,
           {"of working parameters and gradients: bf16, fp32",
            [](planner::PlanSettings& s, const std::string& type) { s.fp32 = type == "fp32"; },
            Choice{"bf16", "fp32"}}},
    Option{"train.gradient_precision",
           "type in which gradients of parameters are summed over lanes and micro-batches: fp32, "
           "or bf16 with train.precision=bf16",
           [](Keys& k) -> Value { return &k.train.gradient_precision; }, kPrecision},
    Option{"train.recompute",
           "keep only block inputs, compute activations again in backward",
           [](Keys& k) -> Value { return &k.train.recompute; },
           kFlag,
           Scope::kRun,
           {"keep only the blocks' inputs, compute the rest again",
            [](planner::PlanSettings& s, bool yes) { s.recompute = yes; }, kFlag}},
    Option{"train.logits_rows", "tokens of a lane whose logits exist at a time",
           [](Keys& k) -> Value { return &k.train.logits_rows; }, at_least(1)},
    Option{"train.run_ahead", "steps submitted before the oldest is finished",
           [](Keys& k) -> Value { return &k.train.run_ahead; }, between(1, 1'000)},
    Option{"train.validate_every", "steps between validations, one more at the end; 0: only there",
           [](Keys& k) -> Value { return &k.train.validate_every; }, at_least(0)},
    Option{"train.validate_batches", "micro-batches of a validation",
           [](Keys& k) -> Value { return &k.train.validate_batches; }, at_least(1)},
    Option{"train.checkpoint_every",
           "steps between checkpoints; 0: at the end and at the best validation",
           [](Keys& k) -> Value { return &k.train.checkpoint_every; }, at_least(0)},
    Option{"train.keep", "checkpoints kept besides the best",
           [](Keys& k) -> Value { return &k.train.keep; }, at_least(1)},
    Option{"train.log_every", "steps between progress lines in a log file",
           [](Keys& k) -> Value { return &k.train.log_every; }, at_least(1)},
    Option{"optim.rule",
           {"", &optim::rules_help},
           [](Keys& k) -> Value { return &k.optim.rule; },
           Named{&optim::known_rules,
                 [](const std::string& name) { static_cast<void>(optim::find_rule(name)); }},
           Scope::kRun,
           {"update rule: adamw, or another one of train_gpt",
            [](planner::PlanSettings& s, const std::string& name) {
              s.rule_states = std::ssize(optim::find_rule(name).info->states);
            },
            Named{&optim::known_rules,
                  [](const std::string& name) { static_cast<void>(optim::find_rule(name)); }}}},
    Option{"optim.lr", "peak learning rate", [](Keys& k) -> Value { return &k.optim.lr; },
           optim::LearningRate::kPeaks},
    Option{"optim.final_lr_ratio", "last learning rate over the peak",
           [](Keys& k) -> Value { return &k.optim.final_lr_ratio; },
           optim::LearningRate::kFinalRatios},
    Option{"optim.warmup", "steps of linear warm-up",
           [](Keys& k) -> Value { return &k.optim.warmup; }, optim::LearningRate::kWarmups},
    Option{
        "optim.schedule",
        {"",
         [] { return fmt::format("{}", fmt::join(optim::LearningRate::known_schedules(), ", ")); }},
        [](Keys& k) -> Value { return &k.optim.schedule; },
        Named{&optim::LearningRate::known_schedules, &optim::LearningRate::expect_known}},
    Option{"optim.weight_decay", "decoupled weight decay of matrices, for every rule",
           [](Keys& k) -> Value { return &k.optim.weight_decay; },
           optim::OptimizerOptions::kWeightDecays},
    Option{"optim.decay_vectors", "decay biases and norm weights too",
           [](Keys& k) -> Value { return &k.optim.decay_vectors; }, kFlag},
    Option{"optim.decay_embeddings", "decay embeddings too",
           [](Keys& k) -> Value { return &k.optim.decay_embeddings; }, kFlag},
    Option{"optim.no_decay", "comma-separated name patterns of further matrices without decay",
           [](Keys& k) -> Value { return &k.optim.no_decay; }, Any{"any text is a pattern"}},
    Option{"optim.freeze",
           "comma-separated name patterns of parameters that keep their values: no gradient, no "
           "states, no update",
           [](Keys& k) -> Value { return &k.optim.freeze; },
           Any{"shape::mark_trained() compares it with the model"},
           Scope::kRun,
           {"name patterns of parameters that keep their values", &planner::set_frozen,
            Any{"any text is a pattern"}}},
    Option{
        "optim.lr_factors",
        "PATTERN:FACTOR,...: learning rates over optim.lr; the first pattern that matches counts",
        [](Keys& k) -> Value { return &k.optim.lr_factors; },
        Any{"shape::parse_factors() reads it"},
        Scope::kRun,
        {"PATTERN:FACTOR,...: as train_gpt, for the cut into subgroups", &planner::set_factors,
         Any{"shape::parse_factors() reads it"}}},
    Option{"optim.beta1", "decay rate of the first moment; of what lion takes the sign of",
           [](Keys& k) -> Value { return &k.optim.beta1; }, optim::OptimizerOptions::kDecayRates},
    Option{"optim.beta2", "decay rate of the second moment; of lion's momentum",
           [](Keys& k) -> Value { return &k.optim.beta2; }, optim::OptimizerOptions::kDecayRates},
    Option{"optim.momentum", "decay rate of sgd's momentum",
           [](Keys& k) -> Value { return &k.optim.momentum; },
           optim::OptimizerOptions::kDecayRates},
    Option{"optim.eps", "added to the root of the second moment, or of adagrad's sum of squares",
           [](Keys& k) -> Value { return &k.optim.eps; }, optim::OptimizerOptions::kEps},
    Option{"optim.clip", "largest global gradient norm; 0: no clipping",
           [](Keys& k) -> Value { return &k.optim.clip; }, optim::OptimizerOptions::kClips},
    Option{"sched.subgroup_params",
           "most parameters of a subgroup, the unit of the update",
           [](Keys& k) -> Value { return &k.sched.subgroup_params; },
           at_least(1),
           Scope::kRun,
           {"parameters of a subgroup, at most; 0: chosen",
            [](planner::PlanSettings& s, Index most) { s.subgroup_params = most; }, at_least(0)}},
    Option{
        "sched.stride",
        "every stride-th subgroup on the GPU; 0: the policy's choice",
        [](Keys& k) -> Value { return &k.sched.stride; },
        at_least(0),
        Scope::kNode,
        {"every stride-th subgroup on the GPU",
         [](planner::PlanSettings& s, Index stride) { s.policy.stride = stride; }, at_least(1), 0}},
    Option{"sched.share",
           "part of the parameters that GPUs update, 0 to 1; -1: the policy's choice",
           [](Keys& k) -> Value { return &k.sched.share; },
           Range{.least = 0, .most = 1, .also = -1, .note = " (or be -1: the policy's choice)"},
           Scope::kNode,
           {"part of the parameters on the GPU, 0 to 1",
            [](planner::PlanSettings& s, double share) { s.policy.share = share; }, between(0, 1),
            -1}},
    Option{
        "sched.window",
        "subgroups whose states are on a GPU at once; 0: the policy's choice",
        [](Keys& k) -> Value { return &k.sched.window; },
        at_least(0),
        Scope::kNode,
        {"streamed subgroups on a GPU at once",
         [](planner::PlanSettings& s, Index window) { s.policy.window = window; }, at_least(1), 0}},
    plan_only("sched.published",
              {"true: model the published code",
               [](planner::PlanSettings& s, bool yes) { s.policy.published = yes; }, kFlag}),
    Option{"sched.resident",
           "states may stay on a GPU where there is room",
           [](Keys& k) -> Value { return &k.sched.resident; },
           kFlag,
           Scope::kNode,
           {"false: no state stays on the GPU",
            [](planner::PlanSettings& s, bool yes) { s.policy.residents = yes; }, kFlag}},
    Option{
        "sched.fallback",
        "dos: updates run elsewhere where a device is late or they end sooner; false: as planned",
        [](Keys& k) -> Value { return &k.sched.fallback; }, kFlag, Scope::kNode},
    plan_only("sched.half_duplex",
              {"true: one direction of a link at a time",
               [](planner::PlanSettings& s, bool yes) { s.policy.half_duplex = yes; }, kFlag}),
    plan_only("sched.gradient_flush",
              {"gradients of CPU subgroups leave the GPU in: backward, update",
               [](planner::PlanSettings& s, const std::string& phase) {
                 s.flush_in_update = phase == "update";
               },
               Choice{"backward", "update"}}),
    plan_only("sched.flush_mode", {"flush during backward: async, blocking (with sched.published)",
                                   [](planner::PlanSettings& s, const std::string& mode) {
                                     s.flush_is_blocking = mode == "blocking";
                                   },
                                   Choice{"async", "blocking"}}),
    Option{"dist.zero",
           "what ranks share out: 1: optimizer states; 2: gradients too; 3: parameters too",
           [](Keys& k) -> Value { return &k.dist.zero; },
           between(1, 3),
           Scope::kRun,
           {"what ranks share: 1 states, 2 gradients too, 3 working parameters too",
            [](planner::PlanSettings& s, Index level) { s.zero = level; },
            Range{.least = 1, .most = 3, .words = "be 1, 2 or 3"}}},
    Option{"dist.weights",
           "comma-separated, one positive number a rank: its share of the updates; empty: equal; "
           "auto: by what calibrate measured on each rank's node",
           [](Keys& k) -> Value { return &k.dist.weights; },
           Any{"shape::parse_weights() reads it, once the number of ranks is known"}},
    Option{"dist.gpu_messages",
           "auto: MPI reads and writes the memory of a rank's only GPU where it can; off: messages "
           "go through host memory",
           [](Keys& k) -> Value { return &k.dist.gpu_messages; }, Choice{"auto", "off"},
           Scope::kNode},
    plan_only("dist.exchange",
              {"direct: through host memory; collective: between GPUs, once a node",
               [](planner::PlanSettings& s, const std::string& way) {
                 s.exchange = way == "collective" ? planner::ExchangeWay::kCollective
                                                  : planner::ExchangeWay::kDirect;
               },
               Choice{"direct", "collective"}}),
    Option{"dist.timeout_s", "seconds after which a silent rank is lost",
           [](Keys& k) -> Value { return &k.dist.timeout_s; }, at_least(1)},
};

}  // namespace dos::config
