// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "perfmodels/machine.hpp"
#include "planner/memory.hpp"
#include "planner/passes.hpp"
#include "planner/wire.hpp"
#include "sched/step_replay.hpp"

namespace dos::planner {

/// Forward and backward of a micro-batch of this project's runtime: FLOP over the machine's
/// training rate and what becomes of activations, beside the exchange with other ranks (wire.hpp)
/// after an update of `update`. `flushed` is what leaves one device during backward, beside it.
/// `model` outlives the result.
PassModel pass_model(const shape::Model& model, const perfmodels::Machine& machine,
                     const Deployment& layout, const PlanSettings& settings, units::Params flushed,
                     units::Seconds update);

/// The same with settings.activations, with what their disks have to do beside them. The published
/// code gathers weights (once each) and reduces gradients between GPUs, with nothing beside it, and
/// computes all of forward again, or nothing; what is flushed blocking, with the cast on the CPU,
/// comes behind backward.
PhaseTimes phase_times(const shape::Model& model, const perfmodels::Machine& machine,
                       const Deployment& layout, const PlanSettings& settings,
                       units::Params flushed, units::Seconds update, const DiskLoad& disks = {});

/// The same by depth, each with its part of what forward computes.
std::vector<sched::DepthPasses> depth_passes(const shape::Model& model, const PhaseTimes& phases);

}  // namespace dos::planner
