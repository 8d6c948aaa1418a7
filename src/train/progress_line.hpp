// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <utility>

#include "train/metrics.hpp"

namespace dos::train {

/// Shows how far a run is, on standard error: one line that is rewritten on a terminal, a line
/// every `log_every` steps elsewhere.
class ProgressLine {
 public:
  ProgressLine(Index steps, Index log_every, bool quiet);

  void step(const StepMetrics& metrics);
  /// `best`: the lowest so far. One that is not says which was.
  void validation(Index step, double loss, bool best);

 private:
  void end_line();

  Index steps_;
  Index log_every_;
  bool quiet_;
  bool terminal_;
  bool line_open_ = false;
  double smooth_ms_ = 0;
  std::optional<std::pair<Index, double>> best_{};  ///< step and loss, of this part of the run
};

}  // namespace dos::train
