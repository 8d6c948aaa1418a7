// SPDX-License-Identifier: Apache-2.0
#include "trace/report/activation_section.hpp"

#include <fmt/format.h>

#include "base/units.hpp"
#include "trace/report/charts.hpp"

namespace dos::trace {
namespace {

std::string title_of(const ActivationCost& cost) {
  return cost.where == "recompute" ? cost.name + " again" : cost.name + " to " + cost.where;
}

std::string bytes_text(const ActivationCost& cost) {
  return cost.bytes > 0 ? format_bytes(static_cast<Index>(cost.bytes)) : "";
}

}  // namespace

std::string in_words(const ActivationCost& cost) {
  const std::string bytes = bytes_text(cost);
  return fmt::format("{}: {}{}{} a step, {} of it not hidden", title_of(cost), bytes,
                     bytes.empty() ? "" : " and ", format_time(cost.time),
                     format_time(cost.exposed));
}

std::string dearest(const Analysis& analysis) {
  if (analysis.activations.empty() || analysis.activations.front().exposed <= 0) return "";
  const ActivationCost& first = analysis.activations.front();
  return fmt::format("{} costs most: {} of a step of {}", title_of(first),
                     format_time(first.exposed), format_time(analysis.median_step));
}

std::string activation_section(const Analysis& analysis) {
  std::string text =
      "<div class=\"scrolled\"><table class=\"figures\">\n<tr><th></th><th>bytes</th>"
      "<th>time</th><th>hidden</th><th>not hidden</th></tr>\n";
  for (const ActivationCost& cost : analysis.activations)
    text += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
                        title_of(cost), bytes_text(cost), format_time(cost.time),
                        format_time(cost.hidden()), format_time(cost.exposed));
  text += "</table></div>\n";
  const std::string most = dearest(analysis);
  return most.empty() ? text : text + fmt::format("<p class=\"note\">{}.</p>\n", most);
}

}  // namespace dos::trace
