// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "planner/validation.hpp"

namespace dos::planner {

/// Published updates of states on disks, and what the replays of `zero-infinity` and `mlp-offload`
/// say, from the machine files in `machines`.
std::vector<ValidationRow> validate_disks(const std::filesystem::path& machines);

/// Their table, as Markdown, with what `dos` is predicted to reach there.
std::string disk_table(const std::filesystem::path& machines);

}  // namespace dos::planner
