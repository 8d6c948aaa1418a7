// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "planner/planner.hpp"
#include "sched/replay.hpp"

namespace dos::planner {

/// What `plan` prints: the verdict, memory by category, the plan, phases, bound, and the timeline.
std::string report_text(const Request& request, const Forecast& forecast,
                        const sched::Replay& replay);

/// One JSON object: fits update_s step_s bound_s share window binding memory, and machine model
/// params policy ranks micro_batch reason forward_s backward_s exposed_s (waiting for other ranks)
/// zero sent {gradients, weights} (bytes of a rank in a step) limit resident_share subgroups
/// windows step_bound_s and step_binding (where the update runs beside forward and backward of
/// GPUs; else 0 and "") ahead {subgroups, params, bank_bytes (of a rank), waiting_s (a step, if all
/// waited for the norm), hidden_s} home (bytes of a rank's states by tier) tiers (by tier behind
/// host memory, of a node:
/// {"states", "files" for them, "capacity", "read" and "written" in a step, "written_a_day": bytes,
/// "endurance_days", where the machine file says one}). `window` is the widest of the GPUs'
/// `windows`. `activations` is {"plan", "classes": what each class does, by where ("device",
/// "recompute", "host", "disk"), "waits_s", "compared": plans that "auto" was compared with}.
/// `memory` is {"gpu": {"items": {category: bytes}, "total": b, "available": b}, "host":
/// the same}.
std::string report_json(const Request& request, const Forecast& forecast);

}  // namespace dos::planner
