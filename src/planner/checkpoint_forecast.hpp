// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "perfmodels/checkpoint_interval.hpp"
#include "planner/planner.hpp"
#include "planner/scaling.hpp"

namespace dos::planner {

/// What checkpoints beside the planned steps cost (docs/checkpoints.md).
struct CheckpointForecast {
  units::Bytes all;      ///< of a checkpoint: parameters, and states of what is trained
  units::Bytes own;      ///< of each rank; the first one of a run has what is frozen, too
  units::Bytes taken;    ///< of `own`, states on disks: their files become the checkpoint's
  units::Seconds write;  ///< from the first update of a step to the last byte on the device
  /// For which updates of the next step wait for their bytes, after all else is there.
  units::Seconds wait;
  units::Seconds slowed;  ///< for which its sums and writes keep the CPU workers
  /// What train.checkpoint_every=auto would come to.
  perfmodels::CheckpointInterval interval;
};

/// What a checkpoint writes of a rank's states: all but those that lie on its disk, if it has one;
/// names in a checkpoint's folder are of files of one file system.
units::Bytes checkpoint_bytes(const sched::Problem& problem, const sched::Plan& plan);

/// Plays the writing of a rank's subgroups behind their updates, in the order of the next ones, at
/// its part of the rates; what is at home on a GPU is copied over its link first. Of what is at
/// home on a disk FP32 working parameters alone are written: its states are taken, as they are
/// where checkpoints go to that disk. The next update of a subgroup waits for its own bytes only,
/// until they are written or, from the moment when updates begin, copied: as far as
/// settings.checkpoint_memory goes, by one thread, which moves what an update on one worker does.
/// Throws Error unless rates and mtbf are positive. Pre: request.storage.
CheckpointForecast forecast_checkpoints(const Request& request, const Forecast& forecast);

/// Stalls and intervals of models on 4 to 64 ranks, with the disks and the file system of a
/// published cluster, as Markdown: docs/performance/checkpoints.md.
std::string checkpoint_tables(const std::filesystem::path& machines, ModelFinder find_model);

}  // namespace dos::planner
