// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "perfmodels/machine.hpp"
#include "planner/memory.hpp"
#include "planner/model_shape.hpp"
#include "planner/phases.hpp"
#include "planner/settings.hpp"
#include "sched/plan.hpp"

namespace dos::planner {

struct Request {
  perfmodels::Machine machine;
  ModelShape model;
  Index ranks = 1;
  Index ranks_per_node = 0;  ///< 0: one a GPU, or all ranks where there is none
  Index micro_batch = 1;     ///< sequences on one rank
  std::string policy = "dos";
  Settings settings;
};

/// A planned training step of one rank.
struct Forecast {
  sched::Problem problem;
  sched::Plan plan;
  Layout layout;
  MemoryUse gpu;   ///< of one GPU, with what the plan keeps there; empty without GPU
  MemoryUse host;  ///< of a node
  PhaseTimes phases;
  WireBytes sent;  ///< by one rank in a step
  /// What the step would gain most from: a memory that does not suffice, else the longest of
  /// computing, waiting for other ranks and updating.
  std::string limit;
  units::Seconds step;

  [[nodiscard]] bool fits() const { return gpu.fits() && host.fits(); }
};

/// The parameters of a subgroup unless set: 100 M for the published code (its default), else so
/// many subgroups that each CPU worker has 16, between 1 M and 100 M parameters.
Index subgroup_params(const Request& request, const perfmodels::Rates& rates);

/// Ranks are spread over nodes of the machine, each full: with fewer ranks a node than GPUs a rank
/// drives several. Throws Error for ranks that do not fit the node, several nodes without a
/// network, settings out of range, or a policy that cannot place the model.
Forecast forecast(const Request& request);

}  // namespace dos::planner
