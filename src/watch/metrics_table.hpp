// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/types.hpp"

namespace dos::watch {

/// The lines of a metrics.jsonl, read as they come: a table with a row for each step, in order, and
/// a column for each name of a number.
class MetricsTable {
 public:
  explicit MetricsTable(std::filesystem::path path) : path_(std::move(path)) {}

  /// Takes what is new. A last line without its end is still being written, and left for the next
  /// time; a file that was written anew, as a resumed run does, is read anew; of a step that is
  /// there twice the later line counts. Throws Error, naming file and line, for a file that cannot
  /// be read and for what is no line of metrics.
  void read();

  /// Ascending.
  [[nodiscard]] std::span<const Index> steps() const { return steps_; }
  /// As long as steps(); NaN where a step has no such number, or null. Empty where no step has one.
  [[nodiscard]] std::span<const double> column(std::string_view name) const;
  /// Whether the checkpoint that ended in the step of this row is not there. Earlier releases do
  /// not say so.
  [[nodiscard]] bool has_failed_checkpoint(std::size_t row) const;
  /// The names that begin so, without the beginning, in order.
  [[nodiscard]] std::vector<std::string> names_behind(std::string_view beginning) const;
  /// Loss of each validation, by its step.
  [[nodiscard]] const std::map<Index, double>& validations() const { return validations_; }
  /// 0 while there is none.
  [[nodiscard]] Index last_step() const { return steps_.empty() ? 0 : steps_.back(); }

 private:
  void forget();
  void take(std::string_view line);
  /// The row of the step, which is new if need be.
  std::size_t row_of(Index step);

  std::filesystem::path path_;
  Index offset_ = 0;  ///< of the first line that is not taken
  Index number_ = 0;  ///< of lines that are
  std::pair<std::uint64_t, std::uint64_t> file_{};
  std::vector<Index> steps_;
  std::map<std::string, std::vector<double>, std::less<>> columns_;
  std::map<Index, double> validations_;
};

}  // namespace dos::watch
