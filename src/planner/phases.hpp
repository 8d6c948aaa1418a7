// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "perfmodels/machine.hpp"
#include "planner/memory.hpp"

namespace dos::planner {

struct PhaseTimes {
  units::Seconds forward;
  units::Seconds backward;
};

/// FLOP of the forward pass of one token: 2 a parameter of a matrix product, and 2 * context *
/// width a layer for causal attention (half of the 4 of a full one). Backward is twice that, and
/// once more with recompute.
units::Flops forward_flops(const ModelShape& shape);

/// Forward and backward of a micro-batch: FLOP over the machine's training rate, plus gathering
/// 16-bit weights (once each) and reducing gradients over the machine's `gpu.gather`. `flushed` is
/// what leaves one device during backward, beside it; blocking, with the cast on the CPU, behind.
PhaseTimes phase_times(const ModelShape& shape, const perfmodels::Machine& machine,
                       const Layout& layout, const Settings& settings, units::Params flushed);

}  // namespace dos::planner
