// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "perfmodels/machine.hpp"
#include "planner/memory.hpp"
#include "planner/wire.hpp"

namespace dos::planner {

/// FLOP of the forward pass of one token: 2 a parameter of a matrix product, and 2 * context *
/// width a layer for causal attention (half of the 4 of a full one). Backward is twice that, and
/// once more with recompute; without the products that make gradients of frozen parameters, and
/// without the depths below the first that is trained.
units::Flops forward_flops(const shape::Model& model);

/// The same by depth, from 0 on. A tied table is multiplied in the last one.
std::vector<units::Flops> forward_flops_by_depth(const shape::Model& model);

/// Forward and backward of a micro-batch: FLOP over the machine's training rate, beside the
/// exchange with other ranks (exchange.hpp) after an update of `update`. The published code
/// gathers weights (once each) and reduces gradients between GPUs, with nothing beside it.
/// `flushed` is what leaves one device during backward, beside it; blocking, with the cast on the
/// CPU, behind.
PhaseTimes phase_times(const shape::Model& model, const perfmodels::Machine& machine,
                       const Deployment& layout, const PlanSettings& settings,
                       units::Params flushed, units::Seconds update);

}  // namespace dos::planner
