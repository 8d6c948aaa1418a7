// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>

#include "config/train_config.hpp"
#include "io/run_lock.hpp"
#include "launch/launch.hpp"
#include "launch/local_folders.hpp"
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

/// Looks at the places of checkpoints, --out on rank 0 and train.checkpoint_local where this rank
/// has locked it, before the first step. Throws Error where one can take none; warns where there is
/// less room, or files may have fewer bytes (ulimit -f), than one takes: others may go before it
/// comes. After claim_output().
void expect_place_for_checkpoints(const LaunchOptions& options, const train::Run& run,
                                  const LocalFolders& local);

/// Throws ranks::AgreedError, naming the rank, unless all ranks see what rank 0 has written to the
/// output folder: each writes its part of a checkpoint there. Collective, after run.json.
void expect_shared_output(const LaunchOptions& options, ranks::Exchange& exchange);

}  // namespace dos::launch
