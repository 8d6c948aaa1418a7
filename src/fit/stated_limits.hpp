// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "fit/fit.hpp"
#include "train/run.hpp"

namespace dos::fit {

/// Leaves a rank that has `taken` bytes of host memory already what train.host_memory says, if that
/// is less than what there is.
void limit_host(const config::TrainConfig& config, Index taken, Room& room);

/// ", or raise train.host_memory to 1.25" (GB) where that key keeps the run from what it needs of
/// host memory and the machine has as much; with `on_device` the same of train.gpu_memory, though
/// nobody knows what the device has. "" elsewhere.
std::string raised_limit(const train::Run& run, const Room& room, const planner::MemoryUse& use,
                         bool on_device);

}  // namespace dos::fit
