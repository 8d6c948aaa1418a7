// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "base/memory_category.hpp"
#include "planner/plan_settings.hpp"
#include "sched/plan.hpp"
#include "shape/activation_sets.hpp"
#include "shape/model.hpp"

namespace dos::planner {

/// How a model is spread and run.
struct Deployment {
  Index devices = 1;
  Index devices_per_rank = 1;  ///< each of which has what its rank has
  Index ranks_per_node = 1;
  double tokens = 0;  ///< of a micro-batch on one device

  /// That share what PlanSettings::zero says evenly.
  [[nodiscard]] Index ranks() const { return devices / devices_per_rank; }
  /// That share a node's memory and disks evenly.
  [[nodiscard]] Index devices_per_node() const { return ranks_per_node * devices_per_rank; }
};

/// Bytes a parameter of the sum of all ranks' gradients.
inline constexpr double kSumBytes = 4;
/// Whether ranks send their gradients through host memory, and the owner adds them there.
bool adds_on_host(const Deployment& layout, const PlanSettings& settings);

struct MemoryItem {
  MemoryCategory category{};
  units::Bytes bytes;
  bool in_update = true;  ///< also while the update runs
};

/// Memory by category. docs/planner.md derives the formulae.
struct MemoryUse {
  std::vector<MemoryItem> items;
  units::Bytes available;

  /// Zero for a category that is not there.
  [[nodiscard]] units::Bytes of(MemoryCategory category) const;
  [[nodiscard]] units::Bytes total() const;
  /// But for the rounding of sums.
  [[nodiscard]] bool fits() const { return total() <= available * (1 + 1e-12); }
};

/// What one GPU holds in forward and backward, beside states.
struct GpuDemand {
  units::Bytes weights;
  units::Bytes weight_buffers;    ///< what those need that pass: the layer at work and the next one
  units::Bytes gathered;          ///< weights of other devices, the layer at work and the next one
  units::Bytes gradients;         ///< all of its own
  units::Bytes gradient_buffers;  ///< what those need that leave during backward
  units::Bytes others_gradients;  ///< that stay until the update is done
  units::Bytes reduced;           ///< gradients of others, on their way to them
  units::Bytes activations;
  units::Bytes logits;
  MemoryItem rest;  ///< work spaces, or what is assumed for them
};

/// The parts, 0 to 1, of what may leave a GPU that stay: gradients wait for the update or leave
/// during backward, weights stay or pass, each through their buffers.
struct Staying {
  double gradients = 1;
  double weights = 1;
};

/// The demand by category.
MemoryUse gpu_use(const GpuDemand& demand, units::Bytes available, const Staying& staying = {});

/// Has so many weights pass that the rest fits, as far as `buffers` for them allow. Returns how
/// many.
units::Bytes let_weights_pass(MemoryUse& use, units::Bytes buffers);

/// What a GPU needs at the peak of forward and backward, without states: weights, gathered weights,
/// gradients, gradients on their way to their owners, activations, logits, reserve.
GpuDemand gpu_demand(const shape::Model& model, const Deployment& layout,
                     const PlanSettings& settings);
MemoryUse gpu_peak(const shape::Model& model, const Deployment& layout,
                   const PlanSettings& settings, units::Bytes available,
                   const Staying& staying = {});

/// Of all devices of a node, what is moved there from forward to backward: `where` is Refill::kHost
/// or Refill::kDisk.
units::Bytes moved_activations(const shape::Model& model, const Deployment& layout,
                               const PlanSettings& settings, shape::Refill where);

/// What a GPU has left for states: at that peak (resident) and in the update, when activations,
/// gathered weights and logits are gone.
sched::StateMemory state_memory(const MemoryUse& peak);

/// Whether updates need the memory of dead activations: where the rest has no room for
/// sched::kUpdatesAtWork of `update` bytes each. Elsewhere activations had better keep theirs:
/// StarPU frees cached blocks before it takes those of states that are back home, so that each step
/// would free and allocate most of the GPU's memory (docs/characterisation.md).
bool needs_dead_activations(const sched::StateMemory& memory, units::Bytes update);

/// Adds what states need of a GPU: those that stay, and the window as far as it exceeds the dead
/// activations' memory that it may use, `dead`.
void add_states(units::Bytes resident, units::Bytes window, units::Bytes dead, MemoryUse& use);

/// The host memory of a node: states that do not live elsewhere, gradients and working parameters,
/// those of other ranks, moved activations, program, records and buffers of checkpoints; on a
/// machine without GPU all activations, too. Of the published code what the CPU updates.
/// docs/planner.md has the formulae.
MemoryUse host_use(const shape::Model& model, const Deployment& layout,
                   const PlanSettings& settings, const sched::Problem& problem,
                   const sched::Plan& plan, units::Bytes available);

/// What that leaves a rank for states beside what stays there in any case (UpdateCost::stays), with
/// `available` in the node, whatever the plan.
units::Bytes host_memory_for_states(const shape::Model& model, const Deployment& layout,
                                    const PlanSettings& settings, const sched::Problem& problem,
                                    units::Bytes available);

}  // namespace dos::planner
