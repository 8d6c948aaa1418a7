// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "watch/metrics_table.hpp"

namespace dos::watch {

/// What run.json says of a run; "" and nullopt for what it does not.
struct Description {
  std::string model;      ///< the preset's name, else the family's
  std::string precision;  ///< "bf16"
  std::string scheduler;
  std::optional<Index> ranks;
  std::optional<Index> last_step;  ///< that it ends with
};

/// A run as its output folder shows it, now and later. Nothing but run.json, metrics.jsonl and the
/// lock is read, and nothing is written: any machine that sees the folder will do.
class RunView {
 public:
  /// Throws Error when there is no such folder.
  explicit RunView(std::filesystem::path folder);

  /// Looks again. Throws Error when the folder is none of a run, run.json is of a later format, or
  /// metrics.jsonl is damaged.
  void look();

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const Description& description() const { return description_; }
  [[nodiscard]] const MetricsTable& metrics() const { return metrics_; }
  /// A process has the folder.
  [[nodiscard]] bool is_running() const { return is_running_; }
  /// Nothing will come any more: the last step is done, and nobody has the folder.
  [[nodiscard]] bool has_ended() const;
  /// Seconds since a line was written.
  [[nodiscard]] double age_s() const { return age_s_; }

 private:
  std::filesystem::path folder_;
  std::string name_;
  MetricsTable metrics_;
  Description description_;
  bool is_running_ = false;
  double age_s_ = 0;
};

}  // namespace dos::watch
