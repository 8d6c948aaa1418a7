// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <optional>
#include <span>

#include "config/keys.hpp"
#include "optim/optimizer.hpp"
#include "rt/profile.hpp"
#include "train/metrics.hpp"

namespace dos::train {

/// Whether updates go ahead of the clip factor (optim.speculate), step by step. With auto they do
/// while that pays: a step that is not clipped takes less by what updates hide beside backward, G;
/// one that is clipped takes more than that by what is made again, R. So it pays while the part of
/// the last steps that were clipped is no more than G / R, both as seen. The submitting thread's.
class Speculation {
 public:
  /// `optimizer` must outlive the object.
  Speculation(optim::Optimizer& optimizer, const config::Keys::Optim& options);

  /// Of the steps that have ended.
  struct Totals {
    Index steps = 0;       ///< in which updates might have gone ahead
    Index ahead = 0;       ///< in which they did
    Index redone = 0;      ///< in which some were made again
    double ms_hidden = 0;  ///< as StepMetrics::Speculation has them
    double ms_redone = 0;
  };
  [[nodiscard]] const Totals& totals() const { return totals_; }

  /// To be called before the updates of a step are submitted, in the order of steps.
  void begin_step();
  /// A step has ended, in the order of steps, with these records and this norm of its gradients.
  /// What its updates did; nullopt where none may go ahead.
  std::optional<StepMetrics::Speculation> see(std::span<const rt::TaskRecord> records, double norm);

 private:
  /// With so many of the last steps clipped.
  [[nodiscard]] bool pays(double clipped) const;

  optim::Optimizer& optimizer_;
  bool adapts_;
  double clip_;
  bool is_on_ = true;
  Totals totals_;
  std::optional<double> gain_ms_;  ///< what a step hides; nullopt: none has ended
  std::optional<double> cost_ms_;  ///< what is made again takes; nullopt: not seen
  std::deque<bool> in_flight_;     ///< of steps that have begun: whether they went ahead
  std::deque<bool> last_clipped_;  ///< of the last that have ended
};

}  // namespace dos::train
