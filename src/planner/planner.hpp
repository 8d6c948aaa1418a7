// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "perfmodels/machine.hpp"
#include "planner/activation_use.hpp"
#include "planner/ahead_forecast.hpp"
#include "planner/memory.hpp"
#include "planner/phases.hpp"
#include "planner/plan_settings.hpp"
#include "sched/plan.hpp"
#include "shape/model.hpp"

namespace dos::planner {

struct Request {
  perfmodels::Machine machine;
  shape::Model model;
  Index ranks = 1;
  Index ranks_per_node = 0;  ///< 0: one a GPU, or all ranks where there is none
  Index micro_batch = 1;     ///< sequences on one rank
  std::string policy = "dos";
  PlanSettings settings;
  std::optional<CheckpointStorage> storage{};  ///< what checkpoints are forecast for
};

/// What a step comes to with activations as one of the plans that have names.
struct NamedActivations {
  shape::ActivationPlan plan;
  bool fits = false;
  units::Seconds step;
};

/// A planned training step of one rank.
struct Forecast {
  sched::Problem problem;
  sched::Plan plan;
  perfmodels::Machine machine;  ///< with the memory and the disks that settings leave it
  Deployment layout;
  MemoryUse gpu;   ///< of one GPU, with what the plan keeps there; empty without GPU
  MemoryUse host;  ///< of a node
  PhaseTimes phases;
  WireBytes sent;  ///< by one rank in a step
  Index trained_params = 0;
  shape::ActivationPlan activations;           ///< that count here
  std::vector<ActivationUse> activation_uses;  ///< none for the published code
  std::vector<NamedActivations> named;         ///< that were compared for train.activations=auto
  units::Params flushed;                       ///< whose gradients leave one device during backward
  units::Bytes activations_on_disk{0};         ///< of a node, that a micro-batch moves there
  units::Bytes disk_lacks{0};                  ///< for these and files of states, at most
  std::string full_disk;                       ///< that lacks so much
  /// What the step would gain most from: a memory that does not suffice, else the longest of
  /// computing, waiting for other ranks and updating.
  std::string limit;
  units::Seconds step;
  bool updates_beside = false;  ///< forward and backward (whole_step.hpp); else behind them
  /// Of the step, where it does so on GPUs: what each resource has to do in it, with updates dealt
  /// so that it is least, GPUs waiting for other ranks as forecast. Else `binding` is "".
  sched::Bound step_bound{};
  AheadForecast ahead{};  ///< of the step where updates go ahead of the norm

  [[nodiscard]] bool fits() const {
    return gpu.fits() && host.fits() && disk_lacks == units::Bytes{0};
  }
};

/// The parameters of a subgroup at most unless set: 100 M for the published code (its default),
/// else so many subgroups that each CPU worker has 16, or 4 where a GPU updates less than that in
/// 40 us and the policy adapts, between 1 M and 100 M parameters, or what cuts the model into no
/// more than half of shape::kMostSubgroups. With GPUs forecast() takes a size that fills their
/// memory better, no less than half of it.
Index subgroup_params(const Request& request, const perfmodels::Rates& rates);

/// Ranks are spread over nodes of the machine, each full: with fewer ranks a node than GPUs a rank
/// drives several. Throws Error for ranks that do not fit the node, several nodes without a
/// network, settings out of range, activations on a disk that the machine lacks, or a policy that
/// cannot place the model. With settings.chooses_activations the plan for activations is the one
/// with the shortest step (activation_choice.hpp), if any fits. Memory is what the machine has, or
/// settings.gpu_limit and settings.host_limit, if they are less; disks are
/// those of settings.disks.
Forecast forecast(const Request& given);

}  // namespace dos::planner
