// SPDX-License-Identifier: Apache-2.0
#include "perfmodels/machine_keys.hpp"

#include <cmath>
#include <type_traits>
#include <utility>

namespace dos::perfmodels {
namespace {

// A thousand times below the slowest machines of today and above the largest.
const Units kCount{{{"1", 1}}, 1, 1e5};
const Units kUpdateRate{{{"Gparam/s", 1e9}, {"Mparam/s", 1e6}}, 1e3, 1e15};
const Units kBandwidth{{{"GB/s", 1e9}, {"GiB/s", 0x1p30}}, 1e5, 1e16};
const Units kCapacity{{{"GB", 1e9}, {"GiB", 0x1p30}}, 1e6, 1e17};
const Units kEndurance{{{"TB", 1e12}, {"PB", 1e15}}, 1e10, 1e20};
const Units kTime{{{"us", 1e-6}, {"ms", 1e-3}}, 1e-10, 1};
const Units kSpeed{{{"TFLOP/s", 1e12}, {"GFLOP/s", 1e9}}, 1e6, 1e18};

template <class T>
Sourced<T> from_base(Sourced<double> number) {
  if constexpr (std::is_same_v<T, Index>)
    return {std::llround(number.value), std::move(number.source), number.spread};
  else
    return {T(number.value), std::move(number.source), number.spread};
}

template <class T>
Sourced<double> to_base(const Sourced<T>& number) {
  if constexpr (std::is_same_v<T, Index>)
    return {static_cast<double>(number.value), number.source, number.spread};
  else
    return {number.value.value(), number.source, number.spread};
}

template <class Owner, class T>
KeyOf<Owner> key(const char* name, const Units& units, Presence presence,
                 Sourced<T> Owner::*member) {
  return {name, &units, presence,
          [member](Owner& owner, Sourced<double> number) {
            owner.*member = from_base<T>(std::move(number));
          },
          [member](const Owner& owner) -> std::optional<Sourced<double>> {
            return to_base(owner.*member);
          }};
}

template <class Owner, class T>
KeyOf<Owner> key(const char* name, const Units& units, Presence presence,
                 std::optional<Sourced<T>> Owner::*member) {
  return {name, &units, presence,
          [member](Owner& owner, Sourced<double> number) {
            owner.*member = from_base<T>(std::move(number));
          },
          [member](const Owner& owner) -> std::optional<Sourced<double>> {
            if (!(owner.*member)) return std::nullopt;
            return to_base(*(owner.*member));
          }};
}

/// A number of a section that a machine has or has not.
template <class Section, class T>
Key key(const char* name, const Units& units, Presence presence,
        std::optional<Section> Machine::*section, Sourced<T> Section::*member) {
  return {name, &units, presence,
          [section, member](Machine& machine, Sourced<double> number) {
            if (!(machine.*section)) (machine.*section).emplace();
            (*(machine.*section)).*member = from_base<T>(std::move(number));
          },
          [section, member](const Machine& machine) -> std::optional<Sourced<double>> {
            if (!(machine.*section)) return std::nullopt;
            return to_base((*(machine.*section)).*member);
          }};
}

template <class T>
Key key(const char* name, const Units& units, Sourced<T> PublishedMachine::*member) {
  return key(name, units, Presence::kPublished, &Machine::published, member);
}

}  // namespace

const Units& count_units() {
  return kCount;
}

const Units& time_units() {
  return kTime;
}

const std::vector<Key>& machine_keys() {
  using enum Presence;
  static const std::vector<Key> list{
      key("node.gpus", kCount, kRequired, &Machine::gpus),
      key("node.cpu_workers", kCount, kRequired, &Machine::cpu_workers),
      key("node.training_rate", kSpeed, kRequired, &Machine::training_rate),
      key("node.training_rate_fp32", kSpeed, kOptional, &Machine::training_rate_fp32),
      key("node.task_latency", kTime, kRequired, &Machine::task_latency),
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
      key("network.bandwidth", kBandwidth, kNetwork, &Machine::network, &Network::bandwidth),
      key("network.latency", kTime, kNetwork, &Machine::network, &Network::latency),
      key("published.downcast_rate", kUpdateRate, &PublishedMachine::downcast_rate),
      key("published.blocking_flush", kUpdateRate, &PublishedMachine::blocking_flush),
      key("published.gpu_update_rate", kUpdateRate, &PublishedMachine::gpu_update_rate),
  };
  return list;
}

const std::vector<TierKey>& tier_keys() {
  using enum Presence;
  static const std::vector<TierKey> list{
      key("capacity", kCapacity, kRequired, &Tier::capacity),
      key("link.read", kBandwidth, kRequired, &Tier::read),
      key("link.write", kBandwidth, kRequired, &Tier::write),
      key("link.both", kBandwidth, kOptional, &Tier::both),
      key("link.read_cpu_busy", kBandwidth, kOptional, &Tier::read_cpu_busy),
      key("link.write_cpu_busy", kBandwidth, kOptional, &Tier::write_cpu_busy),
      key("link.both_cpu_busy", kBandwidth, kOptional, &Tier::both_cpu_busy),
      key("link.latency", kTime, kRequired, &Tier::latency),
      key("endurance", kEndurance, kOptional, &Tier::endurance),
  };
  return list;
}

}  // namespace dos::perfmodels
