// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launch/launch.hpp"
#include "launch/preparation.hpp"
#include "ranks/exchange.hpp"
#include "train/trainer.hpp"

namespace dos::launch {

/// Gives parameters and states their first values: of the checkpoint (that of `prepared` is the one
/// that was taken, then), of a folder's weights, or drawn. Collective; `exchange` may be null: one
/// rank. Throws Error, the same on all ranks.
void start(train::Trainer& trainer, const LaunchOptions& options, ranks::Exchange* exchange,
           Preparation& prepared);

}  // namespace dos::launch
