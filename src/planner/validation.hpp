// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <span>
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

/// How a table shows times.
struct TimeUnit {
  const char* name;  ///< "ms"
  double seconds;    ///< of one
  int decimals;
};

/// Rows as a table in Markdown, measured beside predicted, and the largest error. `modes`: what the
/// column of modes is called.
std::string comparison_table(std::span<const ValidationRow> rows, const char* modes,
                             const TimeUnit& unit);

/// Every row, predicted from the machine files in `machines`.
std::vector<ValidationRow> validate_update(const std::filesystem::path& machines);

/// The tables of docs/performance/model-validation.md, as Markdown: update phases, backward phases,
/// states on disks, and what this project's runtime is predicted to reach on the same machines.
std::string validation_tables(const std::filesystem::path& machines);

}  // namespace dos::planner
