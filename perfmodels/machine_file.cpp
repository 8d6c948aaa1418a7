// SPDX-License-Identifier: Apache-2.0
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include "base/nearest.hpp"
#include "base/toml_depth.hpp"
#include "perfmodels/machine_keys.hpp"

namespace dos::perfmodels {
namespace {

std::vector<std::string> key_names() {
  std::vector<std::string> names{"format",    "description", "calibration",
                                 "tier.name", "tier.folder", "tier.link.to"};
  for (const Key& each : machine_keys()) names.push_back(each.name);
  for (const TierKey& each : tier_keys()) names.push_back("tier." + each.name);
  return names;
}

class Reader {
 public:
  Reader(const toml::table& table, std::string file) : table_(table), file_(std::move(file)) {}

  Machine read(const std::string& name) {
    read_head(name);
    for (const auto& [section, node] : table_) {
      if (section == "format" || section == "description") continue;
      if (section == "tier") {
        read_tiers(node);
        continue;
      }
      const toml::table* members = node.as_table();
      if (members == nullptr) fail_unknown(std::string(section.str()), node);
      if (section == "calibration") {
        read_calibration(*members);
        continue;
      }
      for (const auto& [member, value] : *members) {
        const std::string key = std::string(section.str()) + "." + std::string(member.str());
        read_number(machine_keys(), machine_, key, key, value);
      }
    }
    for (const Key& each : machine_keys()) expect_presence(each);
    machine_.validate([this](const std::string& key) { return place(key); });
    return std::move(machine_);
  }

 private:
  [[nodiscard]] std::string place(const toml::node& node) const {
    return fmt::format("{}:{}", file_, node.source().begin.line);
  }

  /// Of a number that has been read.
  [[nodiscard]] std::string place(const std::string& key) const {
    return fmt::format("{}:{}", file_, lines_.at(key));
  }

  [[noreturn]] void fail_unknown(const std::string& name, const toml::node& node) const {
    fail("{}: unknown key '{}'{}; docs/adding/machine.md lists all", place(node), name,
         did_you_mean(name, key_names()));
  }

  void read_head(const std::string& name) {
    const auto format = table_["format"].value_exact<Index>();
    expect(format.has_value(), "{}: 'format = {}' is missing", file_, kMachineFormat);
    expect(*format == kMachineFormat,
           "{}: format {} belongs to another version, this one reads {}: measure the machine again "
           "(calibrate)",
           file_, *format, kMachineFormat);
    const auto description = table_["description"].value_exact<std::string>();
    expect(description.has_value(), "{}: 'description = \"...\"' is missing", file_);
    machine_.name = name;
    machine_.description = *description;
  }

  template <class T>
  T calibration_part(const toml::table& table, const char* part, const char* what) const {
    const toml::node* node = table.get(part);
    expect(node != nullptr, "{}: calibration.{} is missing: run calibrate again", place(table),
           part);
    const auto value = node->value_exact<T>();
    expect(value.has_value(), "{}: calibration.{} must be {}: run calibrate again", place(*node),
           part, what);
    return *value;
  }

  void read_calibration(const toml::table& table) {
    static const std::vector<std::string> known{"host", "date", "starpu", "cores", "nvidia_gpus"};
    for (const auto& [part, value] : table)
      if (std::find(known.begin(), known.end(), part.str()) == known.end())
        fail_unknown("calibration." + std::string(part.str()), value);
    const auto text = [&](const char* part) {
      return calibration_part<std::string>(table, part, "a text");
    };
    const auto count = [&](const char* part, Index least) {
      const auto value = calibration_part<std::int64_t>(table, part, "a whole number");
      expect(value >= least, "{}: calibration.{} = {} must be at least {}: run calibrate again",
             place(*table.get(part)), part, value, least);
      return value;
    };
    machine_.calibration = {.host = {.name = text("host"),
                                     .cores = count("cores", 1),
                                     .nvidia_gpus = count("nvidia_gpus", 0)},
                            .date = text("date"),
                            .starpu = text("starpu")};
  }

  void read_tiers(const toml::node& node) {
    const toml::array* tiers = node.as_array();
    expect(tiers != nullptr && tiers->is_homogeneous(toml::node_type::table),
           "{}: write [[tier]], once for each tier", place(node));
    for (const toml::node& each : *tiers) read_tier(*each.as_table());
  }

  void read_tier(const toml::table& table) {
    const auto text = [&](const char* key, auto&& found) {
      const auto value = found.template value_exact<std::string>();
      expect(value && !value->empty(), "{}: tier.{} = \"...\" is missing in this tier",
             place(table), key);
      return *value;
    };
    Tier tier;
    tier.name = text("name", table["name"]);
    if (table.contains("folder")) tier.folders.push_back(text("folder", table["folder"]));
    const std::string label = "tier." + tier.name;
    const auto [first, is_new] = lines_.emplace(label, table.source().begin.line);
    expect(is_new, "{}: tier '{}' is there already, in line {}: give each a name of its own",
           place(table), tier.name, first->second);
    const std::string to = text("link.to", table["link"]["to"]);
    expect(to == "host", "{}: {}.link.to = \"{}\": links lead to host memory: write \"host\"",
           place(*table["link"].node()), label, to);
    const auto read = [&](const std::string& name, const toml::node& value) {
      if (std::ranges::find(tier_keys(), name, &TierKey::name) == tier_keys().end())
        fail_unknown("tier." + name, value);
      read_number(tier_keys(), tier, name, label + "." + name, value);
    };
    for (const auto& [member, value] : table) {
      if (member == "name" || member == "folder") continue;
      if (member != "link") {
        read(std::string(member.str()), value);
        continue;
      }
      for (const auto& [part, number] : *value.as_table())
        if (part != "to") read("link." + std::string(part.str()), number);
    }
    for (const TierKey& each : tier_keys())
      expect(each.presence != Presence::kRequired || lines_.contains(label + "." + each.name),
             "{}: {}.{} is missing in this tier", place(table), label, each.name);
    machine_.tiers.push_back(std::move(tier));
  }

  /// Messages call it by `name`.
  template <class Owner>
  void read_number(const std::vector<KeyOf<Owner>>& keys, Owner& owner, const std::string& key,
                   const std::string& name, const toml::node& node) {
    const auto found = std::ranges::find(keys, key, &KeyOf<Owner>::name);
    if (found == keys.end()) fail_unknown(name, node);
    const toml::table* table = node.as_table();
    expect(table != nullptr, "{}: write {} = {{ value = ..., unit = \"{}\", source = \"...\" }}",
           place(node), name, found->units->known.front().name);
    for (const auto& [part, value] : *table)
      expect(part == "value" || part == "unit" || part == "spread" || part == "source",
             "{}: {} has an unknown part '{}'; known: value, unit, spread, source", place(value),
             name, part.str());
    const auto number = (*table)["value"].value<double>();
    expect(number.has_value(), "{}: {}.value must be a number", place(node), name);
    expect(std::isfinite(*number), "{}: {}.value = {} must be a finite number", place(node), name,
           *number);
    const bool may_be_zero = name == "node.gpus" || found->units == &time_units();
    expect(*number > 0 || (*number == 0 && may_be_zero), "{}: {} = {:g} must be {}", place(node),
           name, *number, may_be_zero ? "at least 0" : "above 0");
    expect(found->units != &count_units() || *number == std::floor(*number),
           "{}: {} = {:g} must be a whole number", place(node), name, *number);
    const double unit = factor(*found->units, name, *table, node);
    const Units& units = *found->units;
    expect(*number == 0 || (*number * unit >= units.least && *number * unit <= units.most),
           "{}: {} = {:g} must lie between {:g} and {:g} in this unit: is the unit right?",
           place(node), name, *number, units.least / unit, units.most / unit);
    const auto source = (*table)["source"].value_exact<std::string>();
    expect(source.has_value() && !source->empty(), "{}: {} needs source = \"...\"", place(node),
           name);
    found->set(owner, {*number * unit, *source, spread(name, *table)});
    lines_[name] = node.source().begin.line;
  }

  [[nodiscard]] std::optional<double> spread(const std::string& name,
                                             const toml::table& table) const {
    const toml::node* node = table.get("spread");
    if (node == nullptr) return std::nullopt;
    const auto value = node->value<double>();
    expect(value && std::isfinite(*value) && *value >= 0,
           "{}: {}.spread must be a number of at least 0", place(*node), name);
    return value;
  }

  [[nodiscard]] double factor(const Units& units, const std::string& name, const toml::table& table,
                              const toml::node& node) const {
    const auto given = table["unit"].value<std::string>().value_or("");
    std::vector<std::string> known;
    for (const Unit& unit : units.known) {
      if (given == unit.name) return unit.factor;
      known.emplace_back(unit.name);
    }
    fail("{}: {} has unit '{}', known: {}", place(node), name, given, fmt::join(known, ", "));
  }

  void expect_presence(const Key& each) const {
    const bool present = lines_.contains(each.name);
    const bool has_gpu = machine_.gpus.value > 0;
    if (present && each.needs_gpu() && !has_gpu)
      fail("{}: {} is given, but node.gpus is 0", place(each.name), each.name);
    const bool required = each.presence == Presence::kRequired ||
                          (each.presence == Presence::kWithGpu && has_gpu) ||
                          (each.presence == Presence::kNetwork && machine_.network) ||
                          (each.presence == Presence::kPublished && machine_.published);
    if (present || !required) return;
    const std::string section = each.name.substr(0, each.name.find('.'));
    const toml::node* table = table_.get(section);
    if (table == nullptr) fail("{}: {} is missing, with all of [{}]", file_, each.name, section);
    fail("{}: {} is missing in this section", place(*table), each.name);
  }

  const toml::table& table_;
  std::string file_;
  Machine machine_;
  std::map<std::string, Index> lines_;  ///< of the numbers read
};

}  // namespace

Machine parse_machine(const std::string& text, const std::string& file, const std::string& name) {
  expect_shallow_toml(text, file);
  try {
    const toml::table table = toml::parse(text);
    return Reader(table, file).read(name);
  } catch (const toml::parse_error& error) {
    fail("{}:{}: {}", file, error.source().begin.line, error.description());
  }
}

}  // namespace dos::perfmodels
