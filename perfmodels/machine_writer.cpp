// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "perfmodels/machine_keys.hpp"

namespace dos::perfmodels {
namespace {

/// A TOML basic string.
std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    if (static_cast<unsigned char>(c) < 0x20)
      result += fmt::format("\\u{:04x}", c);
    else
      result += c;
  }
  return result + '"';
}

std::string line(const Units& units, const std::string& name, const Sourced<double>& number) {
  const Unit& unit = units.known.front();
  const double value = number.value / unit.factor;
  return fmt::format(
      "{} = {{ value = {}, unit = \"{}\", {}source = {} }}\n", name,
      &units == &count_units() ? fmt::format("{:.0f}", value) : fmt::format("{:.5g}", value),
      unit.name, number.spread ? fmt::format("spread = {:.3g}, ", *number.spread) : "",
      quoted(number.source));
}

std::string calibration_text(const Calibration& calibration) {
  return fmt::format(
      "\n[calibration]\nhost = {}\ndate = {}\nstarpu = {}\ncores = {}\nnvidia_gpus = {}\n",
      quoted(calibration.host.name), quoted(calibration.date), quoted(calibration.starpu),
      calibration.host.cores, calibration.host.nvidia_gpus);
}

}  // namespace

std::string machine_text(const Machine& machine) {
  std::string text =
      fmt::format("# SPDX-License-Identifier: Apache-2.0\nformat = {}\ndescription = {}\n",
                  kMachineFormat, quoted(machine.description));
  if (machine.calibration) text += calibration_text(*machine.calibration);
  std::string section;
  for (const Key& key : machine_keys()) {
    if (key.needs_gpu() && machine.gpus.value == 0) continue;
    const auto number = key.get(machine);
    if (!number) continue;
    const std::size_t dot = key.name.find('.');
    if (key.name.substr(0, dot) != section) {
      section = key.name.substr(0, dot);
      text += fmt::format("\n[{}]\n", section);
    }
    text += line(*key.units, key.name.substr(dot + 1), *number);
  }
  for (const Tier& tier : machine.tiers) {
    text += fmt::format("\n[[tier]]\nname = {}\n", quoted(tier.name));
    if (!tier.folders.empty()) text += fmt::format("folder = {}\n", quoted(tier.folders.front()));
    text += "link.to = \"host\"\n";
    for (const TierKey& key : tier_keys())
      if (const auto number = key.get(tier)) text += line(*key.units, key.name, *number);
  }
  return text;
}

}  // namespace dos::perfmodels
