// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "planner/planner.hpp"

namespace dos::planner {

/// One published measurement of an update phase and what the replay of the published code says.
struct ValidationRow {
  std::string machine;
  std::string model;
  std::string mode;  ///< "all CPU", "stride 4"
  std::string source;
  bool calibrated = false;  ///< the machine's rates were chosen with this row in view
  units::Seconds measured;
  units::Seconds predicted;

  [[nodiscard]] double error() const { return predicted / measured - 1; }
};

/// Every row, predicted from the machine files in `machines`.
std::vector<ValidationRow> validate_update(const std::filesystem::path& machines);

/// The tables of docs/performance/model-validation.md, as Markdown: update phases, backward phases,
/// states on disks, and what this project's runtime is predicted to reach on the same machines.
std::string validation_tables(const std::filesystem::path& machines);

}  // namespace dos::planner
