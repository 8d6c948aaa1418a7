// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "config/train_config.hpp"
#include "fit/fit.hpp"
#include "launch/launch.hpp"
#include "launch/rank_place.hpp"
#include "ranks/exchange.hpp"
#include "rt/session.hpp"
#include "train/run.hpp"

namespace dos::launch {

/// Whether a dry run asks for GPUs that are not there.
bool plans_gpus(const LaunchOptions& options, const config::TrainConfig& config,
                const rt::Session& session);

/// What this rank may take: its part of the node's memory, no more than train.host_memory, of the
/// devices or of those that are planned; with train.activations=auto or --explain the rates that
/// are known. `says`: this rank warns of rates that it cannot read.
fit::Room room_of_rank(const LaunchOptions& options, const train::Run& run, const RankPlace& place,
                       const rt::Session& session, bool says);

/// Bytes that are free for this rank on each of sched.disks: ranks of a node share a file system in
/// proportion to what all their states would take there. Collective: returns when all have looked.
/// Throws Error as offload::rooms_for_states().
std::vector<Index> free_on_disks(const train::Run& run, const RankPlace& place,
                                 ranks::Exchange* exchange);

/// Throws Error naming key, folder and remedy where the disks have no room for the states that a
/// decided run has there, with so many workers that update, or for activations that it moves.
void expect_room_on_disks(const train::Run& run, const fit::Room& room, const RankPlace& place,
                          Index workers);

}  // namespace dos::launch
