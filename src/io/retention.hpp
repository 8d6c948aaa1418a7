// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <span>
#include <vector>

#include "base/types.hpp"

namespace dos::io {

/// Which checkpoints of a run stay, besides those that links point to.
struct Retention {
  constexpr Retention(Index newest = 1, double hours = 0) : keep(newest), every_hours(hours) {}

  Index keep;          ///< the newest so many
  double every_hours;  ///< and of the others one in so many hours; 0: none
};

/// Of a checkpoint of which each of several nodes has a part, the newest so many at least: where
/// nodes are killed their newest may differ by one step, and then all have the one before.
inline constexpr Index kLeastParts = 2;

/// A checkpoint, as the rule sees it.
struct CheckpointAge {
  Index step = 0;
  std::filesystem::file_time_type written{};
  bool is_needed = false;  ///< stays, whatever the rule says
};

/// The steps of those that go. `checkpoints` ascend by step. Of those behind each other the oldest
/// stays, then the next that is every_hours younger (or older, by a clock that was set back), and
/// so on: so what stays today stays tomorrow.
std::vector<Index> surplus(std::span<const CheckpointAge> checkpoints, const Retention& retention);

}  // namespace dos::io
