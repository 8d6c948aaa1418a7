// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/types.hpp"
#include "perfmodels/machine.hpp"
#include "sched/policy.hpp"
#include "shape/activation_plan.hpp"
#include "shape/adapters.hpp"
#include "shape/trained_groups.hpp"

namespace dos::planner {

/// How ranks exchange gradients and weights.
enum class ExchangeWay : std::uint8_t {
  kDirect,  ///< as this project's runtime: between each rank and each owner, through host memory
  kCollective,  ///< between GPUs, once into each node: what CUDA-aware collectives could reach
};

/// Whether updates go ahead of the norm (optim.speculate).
enum class SpeculationChoice : std::uint8_t {
  kOff,
  kOn,    ///< all that can
  kAuto,  ///< where that gains something, as many as memory has room for
};

/// Where checkpoints go, and how often a run fails.
struct CheckpointStorage {
  units::BytesPerSecond node;   ///< durable writing of a node
  units::BytesPerSecond total;  ///< of all nodes together; infinite where each has its own disk
  units::Seconds mtbf{24.0 * 3600};  ///< between failures of the whole job
};

/// A disk that a run is given (sched.disks, train.activation_disks): the machine's tier of that
/// name, or in which the folder lies, else the next one.
struct PlannedDisk {
  std::string folder;
  std::optional<units::Bytes> most{};  ///< that each rank may take
};

/// What `plan --set key=value` changes.
struct PlanSettings {
  Index subgroup_params = 0;  ///< 0: 100 M as published, else forecast() chooses
  Index zero = 3;             ///< shared: 1 states, 2 gradients too, 3 working parameters too
  ExchangeWay exchange = ExchangeWay::kDirect;
  Index rule_states = perfmodels::kAdamwStates;  ///< FP32, of the update rule
  /// What forward leaves for backward; with `chooses_activations` the forecast takes the best.
  shape::ActivationPlan activations = shape::kRecomputeAll;
  bool chooses_activations = false;
  bool fp32 = false;               ///< working parameters and gradients in FP32 instead of BF16
  bool flush_in_update = false;    ///< gradients of CPU subgroups leave the GPU in the update
  bool flush_is_blocking = false;  ///< published code of 2024: the cast on one CPU thread
  shape::TrainedGroups trained;    ///< what is updated
  shape::AdapterChoice lora;       ///< what Request::model has, for reports
  units::Bytes gpu_limit{0};       ///< of each GPU's memory; 0: all of it
  units::Bytes host_limit{0};      ///< of a rank's host memory; 0: its part of the node's
  std::vector<PlannedDisk> disks;  ///< empty: the machine's tiers, where they are needed
  std::vector<PlannedDisk> activation_disks;  ///< empty: those of states
  /// Of a rank's host memory, for states; 0: slots alone; nullopt: most of what a run leaves.
  std::optional<units::Bytes> state_memory;
  SpeculationChoice speculation = SpeculationChoice::kOff;
  bool clips = true;               ///< updates wait for the norm of all gradients
  units::Bytes checkpoint_memory;  ///< of a rank, for states that wait to be written
  Index checkpoint_every = 0;      ///< steps; 0: none that count
  std::string checkpoint_folder;   ///< where they come first; "": on no disk of the plan
  sched::PolicyOptions policy;
};

/// What the key train.activations says. Throws Error as shape::parse_activation_plan().
inline void set_activations(PlanSettings& settings, const std::string& text) {
  settings.activations = shape::parse_activation_plan(text);
  settings.chooses_activations = text == "auto";
}
inline void set_recompute(PlanSettings& settings, bool recompute) {
  settings.activations = shape::recompute_if(recompute);
  settings.chooses_activations = false;
}

/// What the keys train.gpu_memory and train.host_memory say, in GB.
inline void set_gpu_limit(PlanSettings& settings, double most) {
  settings.gpu_limit = units::gigabytes(most);
}
inline void set_host_limit(PlanSettings& settings, double most) {
  settings.host_limit = units::gigabytes(most);
}
/// What the key sched.host_memory says, where it says how much.
inline void set_state_memory(PlanSettings& settings, double gigabytes) {
  settings.state_memory.reset();
  if (gigabytes >= 0) settings.state_memory = units::gigabytes(gigabytes);
}

/// What keys say by a word.
inline void set_precision(PlanSettings& settings, const std::string& type) {
  settings.fp32 = type == "fp32";
}
inline void set_speculation(PlanSettings& settings, const std::string& choice) {
  settings.speculation = choice == "on"     ? SpeculationChoice::kOn
                         : choice == "auto" ? SpeculationChoice::kAuto
                                            : SpeculationChoice::kOff;
}
/// What the key optim.clip says.
inline void set_clip(PlanSettings& settings, double largest) {
  settings.clips = largest > 0;
}
inline void set_gradient_flush(PlanSettings& settings, const std::string& phase) {
  settings.flush_in_update = phase == "update";
}
inline void set_flush_mode(PlanSettings& settings, const std::string& mode) {
  settings.flush_is_blocking = mode == "blocking";
}
inline void set_exchange(PlanSettings& settings, const std::string& way) {
  settings.exchange = way == "collective" ? ExchangeWay::kCollective : ExchangeWay::kDirect;
}

/// What the keys optim.freeze and optim.lr_factors say.
inline void set_frozen(PlanSettings& settings, const std::string& patterns) {
  settings.trained.frozen = shape::parse_patterns(patterns);
}
inline void set_factors(PlanSettings& settings, const std::string& factors) {
  settings.trained.factors = shape::parse_factors("optim.lr_factors", factors);
}

}  // namespace dos::planner
