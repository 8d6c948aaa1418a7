// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/types.hpp"

namespace dos::checkpoint {

/// A checkpoint of a run, as its files say.
struct Listed {
  Index step = 0;
  std::filesystem::path folder;
  bool is_last = false;
  bool is_best = false;
  bool is_aside = false;  ///< the run has gone back to an earlier step since
  bool is_local = false;  ///< in the run's folder of train.checkpoint_local
  Index part = 0;         ///< there, of those that the nodes' disks have
  Index parts = 1;
  Index bytes = 0;                          ///< of its files
  std::filesystem::file_time_type time{};   ///< of its manifest, or its folder without one
  std::optional<double> validation_loss{};  ///< the lowest of the run so far
  std::string fault{};  ///< what is wrong with it, as far as one has looked; "": nothing
};

/// The checkpoints of the run in `named`, or whose folder of checkpoints it is, on all levels that
/// this node has, ascending. Their files are looked for and measured; `verifies`: every byte of
/// them is read. Throws Error when there is no such run.
std::vector<Listed> list_checkpoints(const std::filesystem::path& named, bool verifies);

/// What stays where checkpoints are removed by hand; what is not said, as the run in its last
/// checkpoint says of itself.
struct Pruning {
  std::optional<Index> keep{};
  std::optional<double> every_hours{};
  bool is_dry = false;  ///< nothing is removed
};

/// Removes the checkpoints that a commit of the run would, on all levels that this node has, and
/// returns them as they were. What would stay as the newest is read first. Throws Error when that
/// is damaged, there is no such run, or a process has it.
std::vector<Listed> prune_checkpoints(const std::filesystem::path& named, const Pruning& pruning);

}  // namespace dos::checkpoint
