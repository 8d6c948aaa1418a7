// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <vector>

#include "base/types.hpp"
#include "config/options.hpp"
#include "data/sources.hpp"
#include "offload/disk_place.hpp"
#include "optim/optimizer_options.hpp"
#include "optim/schedule.hpp"
#include "sched_starpu/scheduler_settings.hpp"
#include "shape/cutter.hpp"
#include "shape/model_config.hpp"
#include "shape/trained_groups.hpp"
#include "tensor/parameter_set.hpp"

namespace dos::config {

/// Everything that decides what a run computes: the values of kOptions, and what follows from them.
struct TrainConfig : Keys {
  /// Throws Error naming the first key whose value is not of its domain.
  void expect_in_domains() const;

  /// That, and what holds between keys.
  void validate() const;

  /// The data sets that data.path or data.sources names. Throws Error unless one of them does.
  [[nodiscard]] std::vector<data::SourceName> data_sources() const;

  /// The step after which the run ends: train.stop_after if set, at most train.steps.
  [[nodiscard]] Index last_step() const;

  /// The model: the preset, overridden by what is set (not 0). The vocabulary is model.vocab, else
  /// `dataset_vocabulary` if known (not 0), else the preset's. Throws Error for an unknown preset,
  /// a shape that is no model, or a vocabulary smaller than the dataset's.
  /// With the adapters that lora.* says.
  [[nodiscard]] shape::ModelConfig resolve_model(Index dataset_vocabulary) const;

  /// Bytes of each GPU that the run may use, in whole MiB; 0: what the runtime says.
  [[nodiscard]] Index gpu_memory_bytes() const;
  /// train.host_memory, in bytes; 0: no limit.
  [[nodiscard]] Index host_memory_bytes() const;

  /// Buffers of a run on these workers: one lane a worker unless train.lanes is set.
  [[nodiscard]] shape::RunShape run_shape(const shape::LaneWorkers& workers) const;

  /// Types of working parameters (and activations) and of the parameters' gradients.
  [[nodiscard]] tensor::ParameterTypes parameter_types() const;

  [[nodiscard]] optim::OptimizerOptions optimizer() const;
  [[nodiscard]] optim::LearningRate learning_rate() const;
  [[nodiscard]] shape::DecayGroups decay_groups() const;
  /// Throws Error as offload::parse_disks().
  [[nodiscard]] std::vector<offload::DiskPlace> disks() const;
  /// Those of activations. Throws Error as offload::parse_disks().
  [[nodiscard]] std::vector<offload::DiskPlace> activation_disks() const;
  /// How backward has activations; before train.activations=auto was decided, as if all were kept.
  /// Throws Error as shape::parse_activation_plan().
  [[nodiscard]] shape::ActivationPlan activation_plan() const;
  /// Throws Error as shape::parse_factors().
  [[nodiscard]] shape::TrainedGroups trained_groups() const;
  /// Of a training on `ranks` ranks: which of them have their gradients in host memory.
  [[nodiscard]] sched_starpu::SchedulerSettings scheduling(
      Index ranks, const std::optional<perfmodels::GpuRates>& measured_link = {}) const;
};

/// Gives a model the adapters that lora.* says, or none. Throws Error for names that are no modules
/// of its blocks, and for adapters that do not fit them.
void take_adapters(const shape::AdapterChoice& lora, shape::ModelConfig& model);

/// A key of a configuration: where its value lies, what --help says of it, its row of the table.
struct Key {
  std::string name;  ///< "train.steps"
  config::Value value;
  std::string help;
  const Option* option;
};

/// The keys of a training, in the order of --help. Pointers go into `keys`.
std::vector<Key> keys_of(Keys& keys);

/// The value as TOML: 12, 0.5, true, "text".
std::string value_text(const Key& key);

/// {"model": {"preset": ...}, ...}: all keys, or those of a scope.
nlohmann::json to_json(const TrainConfig& config, std::optional<Scope> scope = std::nullopt);

/// Sets what `json` (as to_json() writes it) holds. Throws Error, starting with `where`, for a key
/// that this version does not know or a value of the wrong type; `config` is then unchanged.
void from_json(const nlohmann::json& json, const std::string& where, TrainConfig& config);

}  // namespace dos::config
