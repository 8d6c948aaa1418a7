// SPDX-License-Identifier: Apache-2.0
#include "planner/exchange.hpp"

#include <algorithm>
#include <bit>

#include "base/error.hpp"

namespace dos::planner {
namespace {

using units::Seconds;

double real(Index value) {
  return static_cast<double>(value);
}

/// Messages one after the other of a collective on `count` sides.
double doublings(Index count) {
  return real(std::bit_width(static_cast<std::uint64_t>(count - 1)));
}

units::BytesPerSecond rate_in_node(const perfmodels::Machine& machine, const Layout& layout) {
  if (machine.gather) return machine.gather->value;
  // Out to host memory and in again, or, on CPUs, every byte read and written once by each rank.
  if (machine.gpus.value > 0)
    return std::min({machine.h2d.value, machine.d2h.value, machine.both.value * 0.5});
  return machine.dram_bandwidth.value / (2 * real(layout.ranks_per_node));
}

Seconds forward_with_broadcasts(std::span<const LayerWork> layers, Seconds update) {
  Seconds all{0};
  for (const LayerWork& layer : layers) all += layer.exchange;
  Seconds updated{0};
  Seconds wire = update * -1.0;
  Seconds compute{0};
  for (const LayerWork& layer : layers) {
    updated += layer.exchange;
    const double part = all.value() > 0 ? updated / all : 1;
    wire = std::max(wire, update * (part - 1)) + layer.exchange;
    compute = std::max(compute, wire) + layer.forward;
  }
  return compute;
}

Seconds forward_with_gathers(std::span<const LayerWork> layers) {
  Seconds wire{0};
  Seconds compute{0};
  std::vector<Seconds> done;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    // Two layers' weights have room: the one at work and the next.
    wire = std::max(wire, i < 2 ? Seconds{0} : done[i - 2]) + layers[i].exchange;
    compute = std::max(compute, wire) + layers[i].forward;
    done.push_back(compute);
  }
  return compute;
}

Seconds backward_with_reductions(std::span<const LayerWork> layers, bool gathers) {
  Seconds wire{0};
  Seconds compute{0};
  std::vector<Seconds> done(layers.size());
  const auto reduce = [&](std::size_t layer) {
    wire = std::max(wire, done[layer]) + layers[layer].exchange;
  };
  for (std::size_t i = layers.size(); i-- > 0;) {
    if (gathers) {
      const Seconds room = i + 2 < layers.size() ? done[i + 2] : Seconds{0};
      wire = std::max(wire, room) + layers[i].exchange;
      compute = std::max(compute, wire);
    }
    compute += layers[i].backward;
    done[i] = compute;
    // With gathers the reduction of a layer comes behind the gather that its end makes room for.
    const std::size_t due = gathers ? i + 2 : i;
    if (due < layers.size()) reduce(due);
  }
  for (std::size_t i = std::min<std::size_t>(2, layers.size()); gathers && i-- > 0;) reduce(i);
  return std::max(compute, wire);
}

}  // namespace

WireBytes sent_by_rank(const ModelShape& shape, Index ranks, const Settings& settings) {
  const double value = settings.fp32 ? 4 : 2;
  const units::Bytes once(value * real(shape.params()) * real(ranks - 1) / real(ranks));
  return {.gradients = once, .weights = once * (settings.zero == 3 ? 2.0 : 1.0)};
}

Seconds Wire::time(units::Bytes whole) const {
  if (nodes * devices_of_node == 1) return Seconds{0};
  const auto others = [](Index count) { return real(count - 1) / real(count); };
  Seconds slower{0};
  if (devices_of_node > 1) slower = whole * others(devices_of_node) / in_node;
  if (nodes > 1) slower = std::max(slower, whole * others(nodes) / network);
  return slower + latency;
}

std::string Wire::slower() const {
  if (nodes * devices_of_node == 1) return "nothing";
  Wire inside = *this;
  inside.nodes = 1;
  const units::Bytes some = units::gigabytes(1);
  return nodes > 1 && inside.time(some) < time(some) ? "network" : "links of the node";
}

Wire wire_of(const perfmodels::Machine& machine, const Layout& layout) {
  Wire wire;
  wire.devices_of_node = layout.ranks_per_node * layout.devices_per_rank;
  wire.nodes = layout.devices / wire.devices_of_node;
  wire.in_node = rate_in_node(machine, layout);
  wire.latency = machine.transfer_latency.value * doublings(wire.devices_of_node);
  if (wire.nodes == 1) return wire;
  expect(machine.network.has_value(),
         "{} nodes of {}: its machine file has no network.bandwidth and network.latency; add them "
         "(docs/adding/machine.md), or plan {} ranks",
         wire.nodes, machine.name, layout.ranks_per_node);
  wire.network = machine.network->bandwidth.value;
  wire.latency += machine.network->latency.value * doublings(wire.nodes);
  return wire;
}

PhaseTimes overlapped(std::span<const LayerWork> layers, Index zero, Seconds update) {
  Seconds forward{0};
  Seconds backward{0};
  for (const LayerWork& layer : layers) {
    forward += layer.forward;
    backward += layer.backward;
  }
  PhaseTimes times;
  times.forward =
      zero == 3 ? forward_with_gathers(layers) : forward_with_broadcasts(layers, update);
  times.backward = backward_with_reductions(layers, zero == 3);
  times.exposed = times.forward - forward + (times.backward - backward);
  return times;
}

}  // namespace dos::planner
