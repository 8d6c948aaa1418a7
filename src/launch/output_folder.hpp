// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>

#include "config/train_config.hpp"
#include "io/run_lock.hpp"
#include "launch/launch.hpp"
#include "ranks/exchange.hpp"
#include "train/checkpoint.hpp"
#include "train/run.hpp"

namespace dos::launch {

/// Locks the output folder if there is one, before anything in it is read. Null where there is
/// none, and for a dry run, which writes nothing. Throws Error when another process has it, or a
/// later release has written it.
std::unique_ptr<io::RunLock> lock_output(const LaunchOptions& options);

/// Throws Error when the output folder holds another run than the one to be continued.
void expect_unused_output(const LaunchOptions& options,
                          const std::optional<train::CheckpointReader>& checkpoint);

/// Creates and locks an output folder that was not there before. Throws Error when that fails, or
/// another run has got there first.
void claim_output(const LaunchOptions& options,
                  const std::optional<train::CheckpointReader>& checkpoint,
                  std::unique_ptr<io::RunLock>& lock);

/// Looks at the places of checkpoints, also that of train.checkpoint_local, before the first step.
/// Throws Error where one can take none; warns where there is less room, or files may have fewer
/// bytes (ulimit -f), than one takes: others may go before it comes. After claim_output() and
/// lock_local_folder().
void expect_place_for_checkpoints(const LaunchOptions& options, const train::Run& run);

/// Creates and locks the run's folder in train.checkpoint_local. Null without the key.
std::unique_ptr<io::RunLock> lock_local_folder(const LaunchOptions& options,
                                               const config::TrainConfig& config);

/// Makes that folder the run's, which removes what is not. Without the key the run leaves one that
/// it had on another node. On rank 0, when the ranks can start: not before expect_shared_folders().
void take_local_folder(const LaunchOptions& options, const config::TrainConfig& config,
                       const std::optional<train::CheckpointReader>& checkpoint);

/// Throws ranks::AgreedError, naming the rank, unless all ranks see what rank 0 has written to the
/// output folder and to that of train.checkpoint_local: each writes its part of a checkpoint there.
/// Collective, after claim_output(), lock_local_folder() and run.json.
void expect_shared_folders(const LaunchOptions& options, const config::TrainConfig& config,
                           ranks::Exchange& exchange);

}  // namespace dos::launch
