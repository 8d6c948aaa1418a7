// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fit/fit.hpp"
#include "train/run.hpp"

namespace dos::fit {

/// The run with memory for states that have no room in host memory: that of devices
/// (memory_for_states()); and with sched.disks, where sched.host_memory=auto leaves it open, that
/// of the host: most of what the run leaves with the others on disks. Where that is enough for all,
/// it has all.
train::Run choose_homes(const train::Run& run, const Room& room);

/// The run with the updates that go ahead of the clip factor, by optim.speculate: all that can, or
/// with auto, where devices share the work and no disk has states, as many as memory has room for;
/// none else. Run::spare_memory is what that leaves. Throws Error when "on" needs more memory than
/// there is, unless `may_exceed`.
train::Run choose_ahead(const train::Run& run, const Room& room, bool may_exceed = false);

}  // namespace dos::fit
