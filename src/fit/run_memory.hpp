// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "fit/fit.hpp"

namespace dos::fit {

/// Of the run as it is; estimate_run() looks for homes of states first.
RunMemory estimate_as_is(const train::Run& run, const Room& room);

/// Bytes of each device for states that live there for good, where the policy updates there and
/// sched.resident lets states stay: what the model leaves beside so many updates that stream.
/// Empty: none may.
std::vector<Index> memory_for_states(const train::Run& run, const Room& room, double updates);

/// The run itself where host memory has room for all states, or disks have them; else with what
/// devices have for them, if the run fits then.
train::Run with_states_on_devices(const train::Run& run, const Room& room);

}  // namespace dos::fit
