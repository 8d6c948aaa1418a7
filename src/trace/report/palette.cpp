// SPDX-License-Identifier: Apache-2.0
#include "trace/report/palette.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "trace/report/svg.hpp"

namespace dos::trace {
namespace {

constexpr const char* kOther = "#9AA3AD";

constexpr std::array kPalette{
    Colour{Family::kRun, "forward", "#56B4E9"},
    Colour{Family::kRun, "backward", "#E69F00"},
    Colour{Family::kRun, "reduce", "#F0E442"},
    Colour{Family::kRun, "update", "#0072B2"},
    Colour{Family::kRun, "validation", "#009E73"},
    Colour{Family::kRun, "checkpoint", "#D55E00"},
    Colour{Family::kRun, "message", "#225522"},
    Colour{Family::kRun, "wait", "#BBBBBB"},
    Colour{Family::kWait, "slowed by DRAM", "#666633"},
    Colour{Family::kWait, "waiting for data", "#AA4499"},
    Colour{Family::kWait, "waiting for the GPU", "#332288"},
    Colour{Family::kWait, "held back", "#882255"},
    Colour{Family::kWait, "waiting for ranks", "#222255"},
    Colour{Family::kMemory, "parameters", "#6699CC"},
    Colour{Family::kMemory, "working parameters", "#FFCCCC"},
    Colour{Family::kMemory, "gradients", "#EE7733"},
    Colour{Family::kMemory, "optimizer states", "#DDCC77"},
    Colour{Family::kMemory, "activations", "#44BB99"},
    Colour{Family::kMemory, "workspace", "#88CCEE"},
    Colour{Family::kMemory, "data", "#EEEEBB"},
};

/// "stripes-AA4499"
std::string pattern_id(const Colour& colour) {
  return fmt::format("{}-{}", colour.family == Family::kWait ? "stripes" : "rules",
                     colour.value + 1);
}

}  // namespace

std::span<const Colour> palette() {
  return kPalette;
}

std::string fill_of(Family family, std::string_view name) {
  for (const Colour& each : kPalette)
    if (each.family == family && each.name == name)
      return family == Family::kRun ? each.value : fmt::format("url(#{})", pattern_id(each));
  return kOther;
}

std::string pattern_definitions() {
  std::string text = "<svg class=\"definitions\" width=\"0\" height=\"0\"><defs>\n";
  for (const Colour& each : kPalette) {
    if (each.family == Family::kRun) continue;
    const bool striped = each.family == Family::kWait;
    text += fmt::format(
        "<pattern id=\"{}\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\"{}>"
        "<rect width=\"6\" height=\"6\" fill=\"{}\"/>"
        "<rect width=\"6\" height=\"{}\" fill=\"#fff\" fill-opacity=\"0.75\"/></pattern>\n",
        pattern_id(each), striped ? " patternTransform=\"rotate(45)\"" : "", each.value,
        striped ? "2" : "1");
  }
  return text + "</defs></svg>\n";
}

std::string legend(Family family, const std::vector<std::string>& appear) {
  std::string text;
  for (const Colour& each : kPalette)
    if (each.family == family && std::find(appear.begin(), appear.end(), each.name) != appear.end())
      text += fmt::format(
          "<span><svg class=\"key\" width=\"14\" height=\"14\"><rect width=\"14\" height=\"14\" "
          "fill=\"{}\"/></svg>{}</span>\n",
          fill_of(family, each.name), escaped(each.name));
  return text.empty() ? "" : "<p class=\"legend\">" + text + "</p>\n";
}

}  // namespace dos::trace
