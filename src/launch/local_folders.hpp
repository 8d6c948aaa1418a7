// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>

#include "checkpoint/node_folders.hpp"
#include "config/train_config.hpp"
#include "io/run_lock.hpp"
#include "launch/launch.hpp"
#include "ranks/exchange.hpp"
#include "train/checkpoint.hpp"

namespace dos::launch {

// The run's folders in train.checkpoint_local: one, or one on a disk of each node. Each function is
// collective; `exchange` may be null: one rank.

/// The folders, and the lock of the one that this rank has locked, if it has.
struct LocalFolders {
  std::unique_ptr<io::RunLock> lock{};
  checkpoint::NodeFolders nodes{};
};

/// Creates and locks them, and finds out who shares one. Nothing without the key. Throws Error; of
/// another rank than 0 ranks::AgreedError, naming it.
LocalFolders lock_local_folders(const LaunchOptions& options, const config::TrainConfig& config,
                                ranks::Exchange* exchange);

/// Makes them the run's, which removes what is not. Without the key the run leaves one that it had
/// on another node.
void take_local_folders(const LaunchOptions& options, const config::TrainConfig& config,
                        const std::optional<train::CheckpointReader>& checkpoint,
                        const LocalFolders& folders, ranks::Exchange* exchange);

}  // namespace dos::launch
