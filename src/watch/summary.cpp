// SPDX-License-Identifier: Apache-2.0
#include "watch/summary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "base/json.hpp"
#include "watch/mean.hpp"

namespace dos::watch {
namespace {

/// Four digits; whole numbers from 1000 on, as they are read.
std::string number(std::optional<double> value) {
  if (!value || !std::isfinite(*value)) return "-";
  const double size = std::abs(*value);
  return size >= 1000 && size < 1e15 ? fmt::format("{:.0f}", *value)
                                     : fmt::format("{:.4g}", *value);
}

std::string duration(double seconds) {
  const auto whole = static_cast<Index>(std::min(seconds, 1e15));
  if (whole < 60) return fmt::format("{} s", whole);
  const Index minutes = whole / 60;
  if (minutes < 60) return fmt::format("{} min", minutes);
  if (minutes < 48 * 60) return fmt::format("{} h {:02} min", minutes / 60, minutes % 60);
  return fmt::format("{} days", minutes / 1440);
}

std::string percent(double share) {
  return fmt::format("{:.0f} %", 100 * share);
}

/// The rows of a run with a step at least.
class Summary {
 public:
  explicit Summary(const RunView& run) : run_(run), metrics_(run.metrics()) {}

  std::vector<Row> rows() {
    const Index last = metrics_.last_step();
    const std::optional<Index> total = run_.description().last_step;
    add("step", total ? fmt::format("{} of {}", last, *total) : fmt::format("{}", last));
    add("loss", number(now("loss")));
    const std::span<const double> losses = metrics_.column("loss");
    rows_.push_back({.name = "", .text = "", .curve = {losses.begin(), losses.end()}});
    add_validation();
    add("tokens/s", number(now("tokens_per_s")));
    const std::optional<double> step_ms = now("ms_step");
    add("ms a step", number(step_ms));
    add_phases();
    add_devices();
    if (total && step_ms && last < *total)
      add("left", duration(static_cast<double>(*total - last) * *step_ms / 1e3));
    add_traffic(step_ms);
    return std::move(rows_);
  }

 private:
  void add(std::string name, std::string text) {
    rows_.push_back({.name = std::move(name), .text = std::move(text)});
  }

  /// The mean over the last steps, as far as they have the number.
  [[nodiscard]] std::optional<double> now(std::string_view name) const {
    const std::span<const double> all = metrics_.column(name);
    const double mean = mean_of(all.last(std::min<std::size_t>(all.size(), kRecentSteps)));
    return std::isfinite(mean) ? std::optional(mean) : std::nullopt;
  }

  void add_validation() {
    if (metrics_.validations().empty()) return;
    std::optional<double> best;
    for (const auto& [step, loss] : metrics_.validations())
      if (std::isfinite(loss) && (!best || loss < *best)) best = loss;
    add("validation",
        fmt::format("{}, best {}", number(metrics_.validations().rbegin()->second), number(best)));
  }

  void add_phases() {
    constexpr std::array kPhases{std::pair{"forward", "ms_forward"},
                                 std::pair{"backward", "ms_backward"},
                                 std::pair{"update", "ms_update"}};
    double whole = 0;
    for (const auto& [name, column] : kPhases) whole += now(column).value_or(0);
    if (!(whole > 0)) return;
    std::string text;
    for (const auto& [name, column] : kPhases)
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name,
                          percent(now(column).value_or(0) / whole));
    add("of it", text);
  }

  void add_devices() {
    std::string text;
    for (const std::string& device : metrics_.names_behind("busy_")) {
      const std::optional<double> busy = now("busy_" + device);
      if (!busy) continue;
      text += fmt::format("{}{} {} busy", text.empty() ? "" : "; ", one_line(device),
                          percent(std::min(*busy, 1.0)));
      if (const std::optional<double> updated = now("updated_" + device))
        text += fmt::format(", {} of updates", percent(*updated));
    }
    if (!text.empty()) add("devices", text);
  }

  /// The last that is there, and whether a later one is not.
  void add_checkpoint() {
    const std::span<const double> ended = metrics_.column("checkpoint_s");
    std::string text;
    for (std::size_t i = ended.size(); i-- > 0;) {
      if (std::isnan(ended[i])) continue;
      const std::string step = number(at("checkpoint_step", i));
      if (metrics_.has_failed_checkpoint(i)) {
        if (text.empty()) text = fmt::format("none of step {}", step);
        continue;
      }
      text += fmt::format("{}of step {}, {} MB in {} s, waited {} ms", text.empty() ? "" : "; ",
                          step, number(at("mb_checkpoint", i)), number(ended[i]),
                          number(at("ms_checkpoint_waited", i)));
      if (const std::optional<double> room = at("ms_checkpoint_room", i); room > 0.0)
        text += fmt::format(", {} ms for room", number(room));
      break;
    }
    if (!text.empty()) add("checkpoint", text);
  }

  /// Checkpoints, disks and waits, where the run has them.
  void add_traffic(std::optional<double> step_ms) {
    add_checkpoint();
    const std::optional<double> read = now("disk_read_bytes");
    const std::optional<double> written = now("disk_written_bytes");
    if ((read || written) && step_ms && *step_ms > 0)
      add("disks",
          fmt::format("{} MB/s read, {} written", number(read.value_or(0) / *step_ms / 1e3),
                      number(written.value_or(0) / *step_ms / 1e3)));
    if (const std::optional<double> waited = now("ms_flush_waited"))
      add("waited", number(waited) + " ms a step for gradients");
  }

  [[nodiscard]] std::optional<double> at(std::string_view name, std::size_t row) const {
    const std::span<const double> all = metrics_.column(name);
    return row < all.size() ? std::optional(all[row]) : std::nullopt;
  }

  const RunView& run_;
  const MetricsTable& metrics_;
  std::vector<Row> rows_;
};

std::string state_of(const RunView& run) {
  if (run.has_ended()) return "ended";
  std::string state = run.is_running() ? "running" : "not running";
  if (!run.metrics().steps().empty() || !run.metrics().validations().empty())
    state += fmt::format(", last line {} ago", duration(run.age_s()));
  return state;
}

}  // namespace

std::string title_of(const RunView& run) {
  const Description& what = run.description();
  std::string title;
  const auto add = [&](const std::string& text) {
    if (!text.empty()) title += (title.empty() ? "" : ", ") + one_line(text);
  };
  add(what.model);
  add(what.precision);
  if (what.ranks) add(fmt::format("ranks {}", *what.ranks));
  if (!what.scheduler.empty()) add("scheduler " + what.scheduler);
  return title.empty() ? run.name() : run.name() + ": " + title;
}

std::vector<Row> summarise(const RunView& run) {
  std::vector<Row> rows;
  if (run.metrics().steps().empty())
    rows.push_back({.name = "step", .text = "no step has ended yet"});
  else
    rows = Summary(run).rows();
  rows.push_back({.name = "state", .text = state_of(run)});
  return rows;
}

}  // namespace dos::watch
