// SPDX-License-Identifier: Apache-2.0
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/error.hpp"
#include "base/nearest.hpp"
#include "perfmodels/machine.hpp"

namespace dos::perfmodels {
namespace {

constexpr Index kFormat = 1;

struct Unit {
  const char* name;
  double factor;  ///< to base units
};

const std::vector<Unit> kCount{{"1", 1}};
const std::vector<Unit> kUpdateRate{{"Gparam/s", 1e9}, {"Mparam/s", 1e6}};
const std::vector<Unit> kBandwidth{{"GB/s", 1e9}, {"GiB/s", 0x1p30}};
const std::vector<Unit> kCapacity{{"GB", 1e9}, {"GiB", 0x1p30}};
const std::vector<Unit> kTime{{"us", 1e-6}, {"ms", 1e-3}};
const std::vector<Unit> kSpeed{{"TFLOP/s", 1e12}, {"GFLOP/s", 1e9}};

enum class Presence : std::uint8_t { kRequired, kOptional, kWithGpu, kOptionalWithGpu, kPublished };

struct Key {
  std::string name;  ///< "link.h2d"
  const std::vector<Unit>* units;
  Presence presence;
  std::function<void(Machine&, double, std::string)> set;
};

template <class T>
Sourced<T> sourced(double value, std::string source) {
  if constexpr (std::is_same_v<T, Index>)
    return {std::llround(value), std::move(source)};
  else
    return {T(value), std::move(source)};
}

template <class T>
Key key(const char* name, const std::vector<Unit>& units, Presence presence,
        Sourced<T> Machine::*member) {
  return {name, &units, presence, [member](Machine& machine, double value, std::string source) {
            machine.*member = sourced<T>(value, std::move(source));
          }};
}

template <class T>
Key key(const char* name, const std::vector<Unit>& units, Presence presence,
        std::optional<Sourced<T>> Machine::*member) {
  return {name, &units, presence, [member](Machine& machine, double value, std::string source) {
            machine.*member = sourced<T>(value, std::move(source));
          }};
}

template <class T>
Key key(const char* name, const std::vector<Unit>& units, Sourced<T> PublishedMachine::*member) {
  return {name, &units, Presence::kPublished,
          [member](Machine& machine, double value, std::string source) {
            if (!machine.published) machine.published.emplace();
            (*machine.published).*member = sourced<T>(value, std::move(source));
          }};
}

const std::vector<Key>& keys() {
  using enum Presence;
  static const std::vector<Key> list{
      key("node.gpus", kCount, kRequired, &Machine::gpus),
      key("node.cpu_workers", kCount, kRequired, &Machine::cpu_workers),
      key("node.training_rate", kSpeed, kRequired, &Machine::training_rate),
      key("cpu.update_rate", kUpdateRate, kRequired, &Machine::cpu_update_rate),
      key("cpu.worker_rate", kUpdateRate, kOptional, &Machine::cpu_worker_rate),
      key("dram.bandwidth", kBandwidth, kRequired, &Machine::dram_bandwidth),
      key("dram.capacity", kCapacity, kRequired, &Machine::dram_capacity),
      key("gpu.update_rate", kUpdateRate, kWithGpu, &Machine::gpu_update_rate),
      key("gpu.memory", kCapacity, kWithGpu, &Machine::gpu_memory),
      key("gpu.gather", kBandwidth, kOptionalWithGpu, &Machine::gather),
      key("link.h2d", kBandwidth, kWithGpu, &Machine::h2d),
      key("link.d2h", kBandwidth, kWithGpu, &Machine::d2h),
      key("link.both", kBandwidth, kWithGpu, &Machine::both),
      key("link.h2d_cpu_busy", kBandwidth, kOptionalWithGpu, &Machine::h2d_cpu_busy),
      key("link.d2h_cpu_busy", kBandwidth, kOptionalWithGpu, &Machine::d2h_cpu_busy),
      key("link.both_cpu_busy", kBandwidth, kOptionalWithGpu, &Machine::both_cpu_busy),
      key("link.latency", kTime, kWithGpu, &Machine::transfer_latency),
      key("node.task_latency", kTime, kRequired, &Machine::task_latency),
      key("published.downcast_rate", kUpdateRate, &PublishedMachine::downcast_rate),
      key("published.blocking_flush", kUpdateRate, &PublishedMachine::blocking_flush),
      key("published.gpu_update_rate", kUpdateRate, &PublishedMachine::gpu_update_rate),
  };
  return list;
}

std::vector<std::string> key_names() {
  std::vector<std::string> names{"format", "description"};
  for (const Key& each : keys()) names.push_back(each.name);
  return names;
}

class Reader {
 public:
  Reader(const toml::table& table, std::string file) : table_(table), file_(std::move(file)) {}

  Machine read(const std::string& name) {
    read_head(name);
    for (const auto& [section, node] : table_) {
      if (section == "format" || section == "description") continue;
      const toml::table* members = node.as_table();
      if (members == nullptr) fail_unknown(std::string(section.str()), node);
      for (const auto& [member, value] : *members)
        read_number(std::string(section.str()) + "." + std::string(member.str()), value);
    }
    for (const Key& each : keys()) expect_presence(each);
    machine_.validate(file_);
    return std::move(machine_);
  }

 private:
  [[nodiscard]] std::string place(const toml::node& node) const {
    return fmt::format("{}:{}", file_, node.source().begin.line);
  }

  [[noreturn]] void fail_unknown(const std::string& name, const toml::node& node) const {
    fail("{}: unknown key '{}'{}; docs/adding/machine.md lists all", place(node), name,
         did_you_mean(name, key_names()));
  }

  void read_head(const std::string& name) {
    const auto format = table_["format"].value_exact<Index>();
    expect(format.has_value(), "{}: 'format = {}' is missing", file_, kFormat);
    expect(*format == kFormat,
           "{}: format {} belongs to another version, this one reads {}: measure the machine again",
           file_, *format, kFormat);
    const auto description = table_["description"].value_exact<std::string>();
    expect(description.has_value(), "{}: 'description = \"...\"' is missing", file_);
    machine_.name = name;
    machine_.description = *description;
  }

  void read_number(const std::string& name, const toml::node& node) {
    const auto found = std::find_if(keys().begin(), keys().end(),
                                    [&](const Key& each) { return each.name == name; });
    if (found == keys().end()) fail_unknown(name, node);
    const toml::table* table = node.as_table();
    expect(table != nullptr, "{}: write {} = {{ value = ..., unit = \"{}\", source = \"...\" }}",
           place(node), name, found->units->front().name);
    for (const auto& [part, value] : *table)
      expect(part == "value" || part == "unit" || part == "source",
             "{}: {} has an unknown part '{}'; known: value, unit, source", place(value), name,
             part.str());
    const auto number = (*table)["value"].value<double>();
    expect(number.has_value() && std::isfinite(*number), "{}: {}.value must be a number",
           place(node), name);
    const bool may_be_zero = name == "node.gpus" || found->units == &kTime;
    expect(*number > 0 || (*number == 0 && may_be_zero), "{}: {} = {:g} must be {}", place(node),
           name, *number, may_be_zero ? "at least 0" : "above 0");
    expect(found->units != &kCount || *number == std::floor(*number),
           "{}: {} = {:g} must be a whole number", place(node), name, *number);
    const auto source = (*table)["source"].value_exact<std::string>();
    expect(source.has_value() && !source->empty(), "{}: {} needs source = \"...\"", place(node),
           name);
    found->set(machine_, *number * factor(*found, *table, node), *source);
    seen_.push_back(name);
  }

  [[nodiscard]] double factor(const Key& each, const toml::table& table,
                              const toml::node& node) const {
    const auto name = table["unit"].value<std::string>().value_or("");
    std::vector<std::string> known;
    for (const Unit& unit : *each.units) {
      if (name == unit.name) return unit.factor;
      known.emplace_back(unit.name);
    }
    fail("{}: {} has unit '{}', known: {}", place(node), each.name, name, fmt::join(known, ", "));
  }

  void expect_presence(const Key& each) const {
    const bool present = std::find(seen_.begin(), seen_.end(), each.name) != seen_.end();
    const bool gpu_key =
        each.presence != Presence::kRequired && each.presence != Presence::kOptional;
    const bool has_gpu = machine_.gpus.value > 0;
    expect(!present || !gpu_key || has_gpu, "{}: {} is given, but node.gpus is 0", file_,
           each.name);
    const bool required = each.presence == Presence::kRequired ||
                          (each.presence == Presence::kWithGpu && has_gpu) ||
                          (each.presence == Presence::kPublished && machine_.published);
    expect(present || !required, "{}: {} is missing", file_, each.name);
  }

  const toml::table& table_;
  std::string file_;
  Machine machine_;
  std::vector<std::string> seen_;
};

}  // namespace

Machine parse_machine(const std::string& text, const std::string& file, const std::string& name) {
  try {
    const toml::table table = toml::parse(text);
    return Reader(table, file).read(name);
  } catch (const toml::parse_error& error) {
    fail("{}:{}: {}", file, error.source().begin.line, error.description());
  }
}

}  // namespace dos::perfmodels
