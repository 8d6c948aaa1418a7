// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

#include <functional>
#include <optional>
#include <set>
#include <vector>

#include "launch/launch.hpp"
#include "ranks/exchange.hpp"
#include "train/checkpoint.hpp"
#include "train/trainer.hpp"

namespace dos::launch {

// Checkpoints in train.checkpoint_local, of which each node may have a part. Each function is
// collective.

/// What each rank says, by rank, on every rank. Throws Error after a failure.
std::vector<nlohmann::json> gather(ranks::Exchange& exchange, const nlohmann::json& mine);

/// Throws ranks::AgreedError on all ranks where what one of them does fails; `takes_part`: whether
/// this one does anything.
void do_together(ranks::Exchange& exchange, bool takes_part, const std::function<void()>& work);

/// Sets options.local_steps, the steps of those that all ranks see, with all of their parts on the
/// nodes that the ranks are on, and local_leftovers; rank 0 warns of damage that only some see.
/// What
/// --resume names is brought to the run's folder first where its parts are all there, and not all
/// ranks see one. `exchange` may be null: one rank.
void agree_on_local_steps(LaunchOptions& options, ranks::Exchange* exchange);

/// Where a rank owns what is on the disk of another node, brings the checkpoint to the run's
/// folder, and takes it from there. `exchange` may be null: one rank. Throws Error, the same on all
/// ranks, when that fails.
void take_whole(const train::Trainer& trainer, const LaunchOptions& options,
                ranks::Exchange* exchange, std::optional<train::CheckpointReader>& checkpoint);

}  // namespace dos::launch
