// SPDX-License-Identifier: Apache-2.0
#include "train/progress_line.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <string>

#include "base/streams.hpp"
#include "base/units.hpp"

namespace dos::train {

ProgressLine::ProgressLine(Index steps, Index log_every, bool quiet)
    : steps_(steps),
      log_every_(log_every),
      quiet_(quiet),
      terminal_(::isatty(STDERR_FILENO) != 0) {}

void ProgressLine::step(const StepMetrics& m) {
  constexpr double kSmoothing = 0.9;
  smooth_ms_ = smooth_ms_ == 0 ? m.ms_step : kSmoothing * smooth_ms_ + (1 - kSmoothing) * m.ms_step;
  if (quiet_) return;
  if (!terminal_ && m.step % log_every_ != 0 && m.step != 1 && m.step != steps_) return;
  const double left_s = smooth_ms_ * static_cast<double>(steps_ - m.step) / 1e3;
  streams::say(
      "{}step {}/{}  loss {:.4f}  grad_norm {:.3f}  lr {:.2e}  {:.0f} tokens/s  {:.0f} ms  "
      "{} left{}",
      terminal_ ? "\r\x1b[K" : "", m.step, steps_, m.loss, m.grad_norm, m.lr, m.tokens_per_s,
      m.ms_step, format_duration(left_s), terminal_ ? "" : "\n");
  line_open_ = terminal_;
  if (m.step == steps_) end_line();
}

void ProgressLine::validation(Index step, double loss, bool best) {
  if (best) best_ = {step, loss};
  if (quiet_) return;
  end_line();
  std::string note = best ? "  (best so far)" : "";
  if (!best && best_)
    note = fmt::format("  (best: {:.4f} after step {})", best_->second, best_->first);
  streams::say("step {}/{}  validation loss {:.4f}{}\n", step, steps_, loss, note);
}

void ProgressLine::end_line() {
  if (line_open_) streams::say("\n");
  line_open_ = false;
}

}  // namespace dos::train
