// SPDX-License-Identifier: Apache-2.0
#include "trace/report/storage_section.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "base/units.hpp"
#include "base/xml.hpp"
#include "trace/report/charts.hpp"

namespace dos::trace {
namespace {

/// "0 us", or "12.1 ms (step 4)" of the one that waited longest.
std::string longest_wait(const CheckpointSummary& all) {
  return format_time(all.waited) +
         (all.waited > 0 ? fmt::format(" (step {})", all.waited_step) : "");
}

/// A figure a line, a column a rank.
std::string table(const Analysis& analysis) {
  if (analysis.checkpoints.empty()) return "";
  const std::vector<CheckpointSummary> ranks = summarise(analysis.checkpoints);
  std::string text = "<div class=\"scrolled\"><table class=\"figures\">\n";
  const auto line = [&](const char* tag, const char* name, const auto& figure) {
    text += fmt::format("<tr><{0}>{1}</{0}>", tag, name);
    for (const CheckpointSummary& all : ranks)
      text += fmt::format("<{0}>{1}</{0}>", tag, figure(all));
    text += "</tr>\n";
  };
  line("th", "", [](const auto& all) { return fmt::format("rank {}", all.rank); });
  line("td", "checkpoints", [](const auto& all) { return all.checkpoints; });
  line("td", "bytes", [](const auto& all) { return format_bytes(all.bytes); });
  line("td", "time", [](const auto& all) { return format_time(all.time); });
  line("td", "rate", [](const auto& all) { return format_rate(all.bytes_per_s); });
  line("td", "copied", [](const auto& all) { return format_share(all.copied_share); });
  line("td", "longest hold", [](const auto& all) { return format_time(all.held); });
  line("td", "longest wait", &longest_wait);
  return text +
         "</table></div>\n<p class=\"note\">Bytes, time and rate: the median of all; time is from "
         "the "
         "first buffer that was held until all was flushed. Copied: so that an update could go on. "
         "Hold: until a buffer was written or copied. Wait: of an update that had nothing else to "
         "wait for.</p>\n";
}

std::string disks(const Analysis& analysis) {
  const bool with_rank = !analysis.disks.empty() && analysis.disks.back().rank > 0;
  std::string text;
  for (const DiskUse& disk : analysis.disks) {
    const std::string rank = with_rank ? fmt::format("{}: ", disk.rank) : "";
    text += fmt::format(
        "<h3>{}{} {}</h3><p class=\"note\">{} in {} transfers · {} while busy · busy {} · {} of "
        "that hidden{}</p>\n",
        rank, disk.operation, xml_escaped(disk.disk), format_bytes(disk.bytes), disk.transfers,
        format_rate(disk.bytes_per_s()), format_time(disk.busy),
        format_share(disk.busy > 0 ? disk.hidden / disk.busy : 0),
        disk.flushing > 0 ? " · flushing " + format_time(disk.flushing) : "");
  }
  return text;
}

/// Bytes of checkpoints that were written in each step's time.
std::map<Index, double> written_in_steps(const Trace& trace, const Analysis& analysis) {
  std::map<Index, double> bytes;
  for (const Storage& row : trace.storage) {
    if (row.operation != "write" || row.purpose != "checkpoint") continue;
    const auto step = std::ranges::upper_bound(analysis.steps, row.start, {}, &StepTimes::end);
    if (step != analysis.steps.end() && row.end >= step->start)
      bytes[step->step] += static_cast<double>(row.bytes);
  }
  return bytes;
}

/// A step with a checkpoint, where the one that is drawn above has none.
std::string another_step(const Trace& trace, const Analysis& analysis) {
  const std::map<Index, double> bytes = written_in_steps(trace, analysis);
  if (bytes.empty() || bytes.contains(analysis.typical_step)) return "";
  const auto most =
      std::ranges::max_element(bytes, {}, [](const auto& each) { return each.second; });
  return fmt::format("<h3>Step {}: the most was written in it</h3>\n", most->first) +
         iteration_chart(trace, analysis, most->first);
}

}  // namespace

std::string storage_section(const Trace& trace, const Analysis& analysis) {
  return table(analysis) + disks(analysis) + another_step(trace, analysis);
}

}  // namespace dos::trace
