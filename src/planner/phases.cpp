// SPDX-License-Identifier: Apache-2.0
#include "planner/phases.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace dos::planner {

units::Flops forward_flops(const ModelShape& shape) {
  const auto real = [](Index value) { return static_cast<double>(value); };
  // A table that is only looked up costs no product; a tied one is multiplied at the end.
  const double table = shape.gated ? real(shape.vocabulary) * real(shape.width)
                                   : real(shape.context) * real(shape.width);
  const double attention = 2 * real(shape.layers) * real(shape.context) * real(shape.width);
  return units::Flops(2 * (real(shape.params()) - table) + attention);
}

PhaseTimes phase_times(const ModelShape& shape, const perfmodels::Machine& machine,
                       const Layout& layout, const Settings& settings, units::Params flushed) {
  // A CPU's rate is that of the node, divided among its ranks.
  const double part = machine.gpus.value > 0 ? 1 : static_cast<double>(layout.ranks_per_node);
  const units::Seconds compute =
      forward_flops(shape) * (layout.tokens * part) / machine.training_rate.value;
  units::Seconds gather{0};
  if (layout.devices > 1 && machine.gather) {
    const auto devices = static_cast<double>(layout.devices);
    const units::Bytes weights((settings.fp32 ? 4 : 2) * static_cast<double>(shape.params()) *
                               (devices - 1) / devices);
    gather = weights / machine.gather->value;
  }
  const units::Seconds forward = compute + gather;
  units::Seconds backward = compute * (settings.recompute ? 3.0 : 2.0) + gather * 2;
  if (machine.gpus.value == 0) return {forward, backward};
  if (settings.flush_is_blocking) {
    expect(machine.published.has_value(),
           "sched.flush_mode=blocking: machine {} has no [published] rates", machine.name);
    backward += flushed / machine.published->blocking_flush.value;
  } else {
    // The published code casts on the GPU and moves FP32.
    const units::BytesPerParam bytes(settings.policy.published || settings.fp32 ? 4 : 2);
    backward = std::max(backward, flushed * bytes / machine.d2h.value);
  }
  return {forward, backward};
}

}  // namespace dos::planner
