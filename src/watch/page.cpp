// SPDX-License-Identifier: Apache-2.0
#include "watch/page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include "base/xml.hpp"
#include "watch/chart.hpp"
#include "watch/summary.hpp"

namespace dos::watch {
namespace {

// Text in drawings shrinks with them: 18 units of 720 are 12 pixels on a page of 500.
constexpr const char* kStyle = R"(
body{font:16px/1.5 sans-serif;margin:1em auto;max-width:94em;padding:0 1em;color:#222;background:#fff}
h1{font-size:1.3em;overflow-wrap:anywhere}
table{border-collapse:collapse;margin-bottom:1em}
td{padding:.1em 1em .1em 0;vertical-align:top;overflow-wrap:anywhere}
td:first-child{color:#555;white-space:nowrap}
section{display:grid;gap:1.2em;grid-template-columns:repeat(auto-fit,minmax(min(100%,36em),1fr))}
figure{margin:0}
figcaption span{white-space:nowrap;margin-left:.8em}
figure>svg{width:100%;height:auto}
svg.key{width:24px;height:10px;margin-right:.3em}
svg text{font-size:18px;fill:#555}
svg line{stroke:#e4e4e4}
svg rect{fill:none;stroke:#bbb}
svg polyline{fill:none;stroke-width:2}
footer{color:#555;margin-top:1em}
)";

class Charts {
 public:
  explicit Charts(const MetricsTable& metrics) : metrics_(metrics) {
    for (const Index step : metrics.steps()) see(step);
    for (const auto& [step, loss] : metrics.validations()) see(step);
  }

  std::string all() {
    loss();
    line("tokens a second", "tokens_per_s", Scale::kFromZero);
    std::vector<Series> times{of("whole", "ms_step"), of("forward", "ms_forward"),
                              of("backward", "ms_backward"), of("update", "ms_update")};
    for (Series& each : times) leave_out_first(each);
    add("milliseconds a step", times, Scale::kFromZero);
    shares("busy workers of each device", "busy_");
    shares("updates on each device", "updated_");
    add("waits, milliseconds a step",
        {of("for gradients", "ms_flush_waited"),
         of("for a checkpoint", "ms_checkpoint_waited", /*is_dots=*/true),
         of("for room for one", "ms_checkpoint_room", /*is_dots=*/true)},
        Scale::kFromZero);
    add("disks, MB/s",
        {rate("read", "disk_read_bytes", "ms_step", 1e-3),
         rate("written", "disk_written_bytes", "ms_step", 1e-3)},
        Scale::kFromZero);
    checkpoints();
    line("norm of the gradients", "grad_norm", Scale::kValues);
    line("learning rate", "lr", Scale::kFromZero);
    return std::move(text_);
  }

 private:
  void see(Index step) {
    first_ = first_ < 0 ? step : std::min(first_, step);
    last_ = std::max(last_, step);
  }

  void add(const std::string& title, const std::vector<Series>& series, Scale scale) {
    text_ += chart(title, series, scale, first_, last_);
  }

  void line(const std::string& title, std::string_view column, Scale scale) {
    add(title, {of(title, column)}, scale);
  }

  [[nodiscard]] Series of(std::string name, std::string_view column, bool is_dots = false) const {
    Series series{.name = std::move(name), .points = {}, .is_dots = is_dots};
    const std::span<const double> values = metrics_.column(column);
    for (std::size_t i = 0; i < values.size(); ++i)
      series.points.emplace_back(metrics_.steps()[i], values[i]);
    return series;
  }

  /// One column over another.
  [[nodiscard]] Series rate(std::string name, std::string_view amount, std::string_view time,
                            double factor, bool is_dots = false) const {
    Series series = of(std::move(name), amount, is_dots);
    const std::span<const double> times = metrics_.column(time);
    if (times.empty()) series.points.clear();
    for (std::size_t i = 0; i < series.points.size(); ++i)
      series.points[i].second *= factor / times[i];
    return series;
  }

  /// The first step meets nothing that is ready, and takes so long that the others would be flat.
  static void leave_out_first(Series& series) {
    constexpr std::size_t kEnough = 10;
    if (series.points.size() > kEnough && series.points.front().first == 1)
      series.points.erase(series.points.begin());
  }

  void checkpoints() {
    Series saved = rate("of each checkpoint", "mb_checkpoint", "checkpoint_s", 1, /*is_dots=*/true);
    for (std::size_t i = 0; i < saved.points.size(); ++i)
      if (metrics_.has_failed_checkpoint(i)) saved.points[i].second = std::nan("");
    add("checkpoints, MB/s", {saved}, Scale::kFromZero);
  }

  void loss() {
    Series validation{.name = "validation", .points = {}, .is_dots = true};
    for (const auto& [step, loss] : metrics_.validations())
      validation.points.emplace_back(step, loss);
    if (validation.points.empty())
      line("loss", "loss", Scale::kValues);
    else
      add("loss", {of("training", "loss"), validation}, Scale::kValues);
  }

  void shares(const std::string& title, const std::string& beginning) {
    std::vector<Series> series;
    for (const std::string& device : metrics_.names_behind(beginning))
      series.push_back(of(device, beginning + device));
    add(title, series, Scale::kShare);
  }

  const MetricsTable& metrics_;
  Index first_ = -1;
  Index last_ = 0;
  std::string text_;
};

}  // namespace

std::string to_page(const RunView& run, const std::string& written, std::optional<double> seconds) {
  const std::string title = xml_escaped(title_of(run));
  const auto period = static_cast<Index>(std::max(1.0, std::round(seconds.value_or(0))));
  const std::string refresh =
      seconds ? fmt::format("<meta http-equiv=\"refresh\" content=\"{}\"/>", period) : "";
  std::string rows;
  for (const Row& row : summarise(run))
    if (!row.text.empty())
      rows += fmt::format("<tr><td>{}</td><td>{}</td></tr>\n", xml_escaped(row.name),
                          xml_escaped(row.text));
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>"
      "<meta name=\"viewport\" content=\"width=device-width\"/>{}<title>{}</title>\n"
      "<style>{}</style></head>\n<body><h1>{}</h1>\n<table>\n{}</table>\n<section>\n{}</section>\n"
      "<footer>Written {}{}.</footer></body></html>\n",
      refresh, title, kStyle, title, rows, Charts(run.metrics()).all(), xml_escaped(written),
      seconds           ? fmt::format("; loads itself again every {} s", period)
      : run.has_ended() ? "; the run has ended"
                        : "");
}

}  // namespace dos::watch
