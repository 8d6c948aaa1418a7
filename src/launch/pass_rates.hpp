// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "fit/fit.hpp"
#include "launch/rank_place.hpp"

namespace dos::launch {

/// Puts into the room what `calibrate` has measured on this machine, as far as it is there: the
/// file of `machines` that plan calls "this", divided among the ranks of the node, and all of it
/// for updates by `policy`. A file that cannot be used is said in a warning, if `says`.
void add_measured_rates(const std::filesystem::path& machines, const RankPlace& place,
                        const std::string& policy, bool says, fit::Room& room);

/// The part of each of the ranks of this node in the disks of train.activation_disks: their sizes,
/// or what is free there.
units::Bytes disk_room(const config::TrainConfig& config, const RankPlace& place);

}  // namespace dos::launch
