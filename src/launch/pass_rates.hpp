// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "fit/fit.hpp"
#include "launch/rank_place.hpp"
#include "train/run.hpp"

namespace dos::launch {

/// Puts into the room what `calibrate` has measured on this machine, as far as it is there: the
/// file of `machines` that plan calls "this", divided among the ranks of the node, and all of it
/// for updates by `policy`. Of disks those count in whose file systems the run's folders are; of
/// tiers whose folder the file does not say, those of the name, or the next ones, as in a plan. A
/// file that cannot be used is said in a warning, if `says`.
void add_measured_rates(const std::filesystem::path& machines, const config::TrainConfig& config,
                        const RankPlace& place, const std::string& policy, bool says,
                        fit::Room& room);

/// What states, and checkpoints that come to `out` or train.checkpoint_local first, have of the
/// disks of activations, by the devices of their folders.
fit::SharedDisks shared_disks(const config::TrainConfig& config, const std::filesystem::path& out);

/// What each of the ranks of this node can move to train.activation_disks: as far as their sizes
/// and file systems allow, beside the states that the room is likely to leave to sched.disks there.
units::Bytes disk_room(const train::Run& run, const fit::Room& room, const RankPlace& place);

}  // namespace dos::launch
