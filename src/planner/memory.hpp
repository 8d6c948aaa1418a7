// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "planner/model_shape.hpp"
#include "planner/settings.hpp"
#include "sched/plan.hpp"

namespace dos::planner {

/// How a model is spread and run.
struct Layout {
  Index devices = 1;  ///< that share what Settings::zero says evenly
  Index devices_per_rank = 1;
  Index ranks_per_node = 1;
  double tokens = 0;  ///< of a micro-batch on one device
};

struct MemoryItem {
  std::string category;
  units::Bytes bytes;
};

/// Memory by category. docs/scheduler.md derives the formulae.
struct MemoryUse {
  std::vector<MemoryItem> items;
  units::Bytes available;

  [[nodiscard]] units::Bytes total() const;
  [[nodiscard]] bool fits() const { return total() <= available; }
};

/// A GPU at the peak of forward and backward, without states: weights, gathered weights,
/// gradients, gradients on their way to their owners, activations, logits, reserve.
/// `gradient_share` is the part of its own gradients that waits on the GPU for the update; the
/// others leave during backward, through two layers' buffers.
MemoryUse gpu_peak(const ModelShape& shape, const Layout& layout, const Settings& settings,
                   units::Bytes available, double gradient_share = 1);

/// Whether the memory of a category is free during the update.
bool is_free_in_update(const std::string& category);

/// What a GPU has left for states: at that peak (resident) and in the update, when activations,
/// gathered weights and logits are gone.
sched::StateMemory state_memory(const MemoryUse& peak);

/// The host memory of a node: states that are not resident, gradients and working parameters of
/// what the CPU updates; on a machine without GPU everything.
MemoryUse host_use(const ModelShape& shape, const Layout& layout, const Settings& settings,
                   const sched::Problem& problem, const sched::Plan& plan, units::Bytes available);

}  // namespace dos::planner
