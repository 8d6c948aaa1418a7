// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <variant>
#include <vector>

#include "base/types.hpp"
#include "models/config.hpp"
#include "optim/optimizer.hpp"
#include "optim/schedule.hpp"
#include "optim/subgroups.hpp"
#include "sched_starpu/settings.hpp"
#include "tensor/parameter_set.hpp"

namespace dos::train {

/// Everything that decides what a run computes. A key "section.name" is the member section.name
/// below; keys_of() is the one table from which the command line, the file format, --help and the
/// printed configuration follow.
struct TrainConfig {
  struct Model {
    std::string preset = "small-3m";
    Index layers = 0;
    Index width = 0;
    Index heads = 0;
    Index context = 0;
    Index vocab = 0;
  } model;
  struct Data {
    std::string path;
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

  /// Throws Error naming the first key whose value is out of range or unknown.
  void validate() const;

  /// The step after which the run ends: train.stop_after if set, at most train.steps.
  [[nodiscard]] Index last_step() const;

  /// The model: the preset, overridden by what is set (not 0). The vocabulary is model.vocab, else
  /// `dataset_vocabulary` if known (not 0), else the preset's. Throws Error for an unknown preset,
  /// a shape that is no model, or a vocabulary smaller than the dataset's.
  [[nodiscard]] models::ModelConfig resolve_model(Index dataset_vocabulary) const;

  /// Bytes of each GPU that the run may use, in whole MiB; 0: what the runtime says.
  [[nodiscard]] Index gpu_memory_bytes() const;

  /// Buffers of a run on `workers` workers: one lane a worker unless train.lanes is set.
  [[nodiscard]] models::RunShape run_shape(Index workers) const;

  /// Types of working parameters (and activations) and of the parameters' gradients.
  [[nodiscard]] tensor::ParameterTypes parameter_types() const;

  [[nodiscard]] optim::OptimizerOptions optimizer() const;
  [[nodiscard]] optim::LearningRate learning_rate() const;
  [[nodiscard]] optim::DecayGroups decay_groups() const;
  /// Of a training on `ranks` ranks: which of them have their gradients in host memory.
  [[nodiscard]] sched_starpu::Settings scheduling(Index ranks) const;
};

/// One configuration key: where its value lies, and what --help says of it.
struct Key {
  using Value = std::variant<Index*, double*, bool*, std::string*>;
  std::string name;  ///< "train.steps"
  Value value;
  std::string help;  ///< meaning, unit, and what 0 or "" stands for
};

/// The keys of a configuration, in the order of --help. Pointers go into `config`.
std::vector<Key> keys_of(TrainConfig& config);

/// The value as TOML: 12, 0.5, true, "text".
std::string value_text(const Key& key);

/// {"model": {"preset": ...}, ...}
nlohmann::json to_json(const TrainConfig& config);

/// Sets what `json` (as to_json() writes it) holds. Throws Error, starting with `where`, for a key
/// that this version does not know or a value of the wrong type; `config` is then unchanged.
void from_json(const nlohmann::json& json, const std::string& where, TrainConfig& config);

}  // namespace dos::train
