// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>

#include "io/run_lock.hpp"
#include "launch/launch.hpp"
#include "train/checkpoint.hpp"

namespace dos::launch {

/// Locks the output folder if there is one, before anything in it is read. Null where there is
/// none, and for a dry run, which writes nothing. Throws Error when another process has it.
std::unique_ptr<io::RunLock> lock_output(const LaunchOptions& options);

/// Throws Error when the output folder holds another run than the one to be continued.
void expect_unused_output(const LaunchOptions& options,
                          const std::optional<train::CheckpointReader>& checkpoint);

/// Creates and locks an output folder that was not there before. Throws Error when that fails, or
/// another run has got there first.
void claim_output(const LaunchOptions& options,
                  const std::optional<train::CheckpointReader>& checkpoint,
                  std::unique_ptr<io::RunLock>& lock);

}  // namespace dos::launch
