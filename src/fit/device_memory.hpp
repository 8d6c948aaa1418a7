// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "planner/memory.hpp"
#include "rt/device.hpp"

namespace dos::fit {

/// A category of a device's memory: what was estimated, and what buffers have of it.
struct DeviceMemoryRow {
  MemoryCategory category{};
  Index estimated = 0;  ///< 0 for what no estimate is made of
  Index allocated = 0;
};

/// weights, gradients, activations (with logits and tokens), states (what updates have brought),
/// work spaces (what else StarPU has taken: scratch buffers, work space of kernels, the rest of its
/// chunks). Call while no task runs.
std::vector<DeviceMemoryRow> device_memory(const rt::Session& session, const rt::Device& device,
                                           const planner::MemoryUse& estimate);

/// A table of device_memory() for each device of the session, in MB, those that run the model with
/// `estimates` in their order; empty without devices.
std::string device_memory_text(const rt::Session& session,
                               const std::vector<planner::MemoryUse>& estimates);

}  // namespace dos::fit
