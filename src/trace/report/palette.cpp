// SPDX-License-Identifier: Apache-2.0
#include "trace/report/palette.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/xml.hpp"
#include "trace/report/svg.hpp"

namespace dos::trace {
namespace {

constexpr const char* kOther = "#9AA3AD";

constexpr std::array kPalette{
    Colour{ColorFamily::kRun, "forward", "#56B4E9"},
    Colour{ColorFamily::kRun, "backward", "#E69F00"},
    Colour{ColorFamily::kRun, "reduce", "#F0E442"},
    Colour{ColorFamily::kRun, "update", "#0072B2"},
    Colour{ColorFamily::kRun, "validation", "#009E73"},
    Colour{ColorFamily::kRun, "checkpoint", "#D55E00"},
    Colour{ColorFamily::kRun, "flush", "#7722FF"},
    Colour{ColorFamily::kRun, "message", "#225522"},
    Colour{ColorFamily::kRun, "wait", "#BBBBBB"},
    Colour{ColorFamily::kWait, "slowed by DRAM", "#666633"},
    Colour{ColorFamily::kWait, "waiting for data", "#AA4499"},
    Colour{ColorFamily::kWait, "waiting for a device", "#332288"},
    Colour{ColorFamily::kWait, "held back", "#882255"},
    Colour{ColorFamily::kWait, "waiting for ranks", "#222255"},
    Colour{ColorFamily::kMemory, "parameters", "#6699CC"},
    Colour{ColorFamily::kMemory, "working parameters", "#FFCCCC"},
    Colour{ColorFamily::kMemory, "gradients", "#EE7733"},
    Colour{ColorFamily::kMemory, "optimizer states", "#DDCC77"},
    Colour{ColorFamily::kMemory, "activations", "#44BB99"},
    Colour{ColorFamily::kMemory, "workspace", "#88CCEE"},
    Colour{ColorFamily::kMemory, "data", "#EEEEBB"},
};

/// "stripes-AA4499"
std::string pattern_id(const Colour& colour) {
  return fmt::format("{}-{}", colour.family == ColorFamily::kWait ? "stripes" : "rules",
                     colour.value + 1);
}

}  // namespace

std::span<const Colour> palette() {
  return kPalette;
}

std::string fill_of(ColorFamily family, std::string_view name) {
  for (const Colour& each : kPalette)
    if (each.family == family && each.name == name)
      return family == ColorFamily::kRun ? each.value : fmt::format("url(#{})", pattern_id(each));
  return kOther;
}

std::string pattern_definitions() {
  std::string text = "<svg class=\"definitions\" width=\"0\" height=\"0\"><defs>\n";
  for (const Colour& each : kPalette) {
    if (each.family == ColorFamily::kRun) continue;
    const bool striped = each.family == ColorFamily::kWait;
    text += fmt::format(
        "<pattern id=\"{}\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\"{}>"
        "<rect width=\"6\" height=\"6\" fill=\"{}\"/>"
        "<rect width=\"6\" height=\"{}\" fill=\"#fff\" fill-opacity=\"0.75\"/></pattern>\n",
        pattern_id(each), striped ? " patternTransform=\"rotate(45)\"" : "", each.value,
        striped ? "2" : "1");
  }
  return text + "</defs></svg>\n";
}

std::string key_square(std::string_view fill) {
  return fmt::format(
      "<svg class=\"key\" width=\"14\" height=\"14\"><rect width=\"14\" height=\"14\" "
      "fill=\"{}\"/></svg>",
      fill);
}

std::string legend(ColorFamily family, const std::vector<std::string>& appear) {
  std::string text;
  for (const Colour& each : kPalette)
    if (each.family == family && std::find(appear.begin(), appear.end(), each.name) != appear.end())
      text += fmt::format("<span>{}{}</span>\n", key_square(fill_of(family, each.name)),
                          xml_escaped(each.name));
  return text.empty() ? "" : "<p class=\"legend\">" + text + "</p>\n";
}

}  // namespace dos::trace
