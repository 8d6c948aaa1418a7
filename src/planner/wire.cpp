// SPDX-License-Identifier: Apache-2.0
#include "planner/wire.hpp"

#include <algorithm>
#include <bit>

#include "base/error.hpp"
#include "base/real.hpp"

namespace dos::planner {
namespace {

using units::Seconds;

/// Messages one after the other of a collective on `count` sides.
double doublings(Index count) {
  return static_cast<double>(std::bit_width(static_cast<std::uint64_t>(count - 1)));
}

/// The part of `whole` that `mine` of them do not have.
double others(Index whole, Index mine = 1) {
  return real(whole - mine) / real(whole);
}

units::SecondsPerByte at(units::BytesPerSecond rate, double bytes) {
  return units::SecondsPerByte(bytes / rate.value());
}

units::BytesPerSecond network_of(const perfmodels::Machine& machine, const Deployment& layout,
                                 Index nodes) {
  expect(machine.network.has_value(),
         "{} nodes of {}: its machine file has no network.bandwidth and network.latency; add them "
         "(docs/adding/machine.md), or plan {} ranks",
         nodes, machine.name, layout.ranks_per_node);
  return machine.network->bandwidth.value;
}

/// Bytes of DRAM for a byte that a rank sends and one that it receives: written and read on the way
/// from and to its GPU, and read and written by MPI.
double dram_traffic(bool gpu) {
  return gpu ? 4 : 2;
}

Wire direct_wire(const perfmodels::Machine& machine, const Deployment& layout, Index nodes) {
  const bool gpu = machine.gpus.value > 0;
  const Index ranks = layout.ranks();
  const double of_node = real(layout.ranks_per_node);
  Wire wire;
  if (gpu) {
    const auto link = std::min({machine.h2d.value, machine.d2h.value, machine.both.value * 0.5});
    wire.stages.push_back({"links to host memory", at(link, others(layout.devices))});
    wire.latency = machine.transfer_latency.value * 2.0;
  }
  wire.stages.push_back(
      {"DRAM", at(machine.dram_bandwidth.value, dram_traffic(gpu) * of_node * others(ranks))});
  if (nodes == 1) return wire;
  const double outside = of_node * others(ranks, layout.ranks_per_node);
  wire.stages.push_back({"network", at(network_of(machine, layout, nodes), outside)});
  wire.latency += machine.network->latency.value;
  return wire;
}

Wire collective_wire(const perfmodels::Machine& machine, const Deployment& layout, Index nodes) {
  const Index of_node = layout.devices / nodes;
  Wire wire;
  if (of_node > 1) {
    const auto rate = machine.gather ? machine.gather->value
                      : machine.gpus.value > 0
                          ? std::min(machine.h2d.value, machine.d2h.value)
                          : machine.dram_bandwidth.value / (dram_traffic(false) * real(of_node));
    wire.stages.push_back({"links of the node", at(rate, others(of_node))});
    wire.latency = machine.transfer_latency.value * doublings(of_node);
  }
  if (nodes == 1) return wire;
  wire.stages.push_back({"network", at(network_of(machine, layout, nodes), others(nodes))});
  wire.latency += machine.network->latency.value * doublings(nodes);
  return wire;
}

/// Layers whose activations are moved have the buffers of so many.
constexpr std::size_t kRing = 3;

bool is_moved(const Move& move) {
  return move.link > Seconds{0} || move.disk > Seconds{0};
}

/// What moves activations: one layer after the other, over a link and a disk that work at once, as
/// a layer has several buffers.
class Mover {
 public:
  /// The end of a move that may begin at `ready`.
  Seconds move(const Move& move, Seconds ready) {
    return std::max(take(link_, move.link, ready), take(disk_, move.disk, ready));
  }

 private:
  static Seconds take(Seconds& free, Seconds time, Seconds ready) {
    if (!(time > Seconds{0})) return ready;
    free = std::max(free, ready) + time;
    return free;
  }

  Seconds link_{0};
  Seconds disk_{0};
};

/// When layers of forward have their activations stored.
class Stores {
 public:
  /// When the buffers of the next layer are free.
  [[nodiscard]] Seconds room() const {
    return ends_.size() < kRing ? Seconds{0} : ends_[ends_.size() - kRing];
  }
  void computed(const LayerWork& layer, Seconds end) {
    ends_.push_back(is_moved(layer.store) ? mover_.move(layer.store, end) : Seconds{0});
  }

 private:
  Mover mover_;
  std::vector<Seconds> ends_;
};

Seconds forward_with_broadcasts(std::span<const LayerWork> layers, Seconds update) {
  Seconds all{0};
  for (const LayerWork& layer : layers) all += layer.exchange;
  Seconds updated{0};
  Seconds wire = update * -1.0;
  Seconds compute{0};
  Stores stores;
  for (const LayerWork& layer : layers) {
    updated += layer.exchange;
    const double part = all.value() > 0 ? updated / all : 1;
    wire = std::max(wire, update * (part - 1)) + layer.exchange;
    compute = std::max({compute, wire, stores.room()}) + layer.forward;
    stores.computed(layer, compute);
  }
  return compute;
}

Seconds forward_with_gathers(std::span<const LayerWork> layers) {
  Seconds wire{0};
  Seconds compute{0};
  std::vector<Seconds> done;
  Stores stores;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    // Two layers' weights have room: the one at work and the next.
    wire = std::max(wire, i < 2 ? Seconds{0} : done[i - 2]) + layers[i].exchange;
    compute = std::max({compute, wire, stores.room()}) + layers[i].forward;
    stores.computed(layers[i], compute);
    done.push_back(compute);
  }
  return compute;
}

Seconds backward_with_reductions(std::span<const LayerWork> layers, bool gathers) {
  Seconds wire{0};
  Seconds compute{0};
  std::vector<Seconds> done(layers.size());
  Mover mover;
  const auto reduce = [&](std::size_t layer) {
    wire = std::max(wire, done[layer]) + layers[layer].reduction;
  };
  for (std::size_t i = layers.size(); i-- > 0;) {
    const bool is_reached = layers[i].backward > Seconds{0} || layers[i].reduction > Seconds{0};
    if (gathers && is_reached) {
      const Seconds room = i + 2 < layers.size() ? done[i + 2] : Seconds{0};
      wire = std::max(wire, room) + layers[i].exchange;
      compute = std::max(compute, wire);
    }
    if (is_moved(layers[i].load))
      compute = std::max(
          compute,
          mover.move(layers[i].load, i + kRing < layers.size() ? done[i + kRing] : Seconds{0}));
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

WireBytes sent_by_rank(const shape::Model& model, Index ranks, const PlanSettings& settings) {
  const double value = settings.fp32 ? 4 : 2;
  const auto sent = [&](Index params) {
    return units::Bytes(value * real(params) * real(ranks - 1) / real(ranks));
  };
  const units::Bytes updated = sent(model.trained_params());
  if (settings.zero < 3) return {.gradients = updated, .weights = updated};
  Index reached = 0;
  for (const shape::ParameterSpec& spec : model.parameters)
    if (spec.depth >= model.first_trained_depth()) reached += spec.count();
  return {.gradients = updated, .weights = sent(model.params()) + sent(reached)};
}

Seconds Wire::time(units::Bytes whole) const {
  if (stages.empty()) return Seconds{0};
  Seconds longest{0};
  for (const Stage& stage : stages) longest = std::max(longest, whole * stage.cost);
  return longest + latency;
}

std::string Wire::slowest() const {
  if (stages.empty()) return "nothing";
  return std::ranges::max_element(stages, {}, &Stage::cost)->name;
}

Wire wire_of(const perfmodels::Machine& machine, const Deployment& layout,
             const PlanSettings& settings) {
  if (layout.devices == 1) return {};
  const Index nodes = layout.devices / (layout.ranks_per_node * layout.devices_per_rank);
  return settings.exchange == ExchangeWay::kDirect ? direct_wire(machine, layout, nodes)
                                                   : collective_wire(machine, layout, nodes);
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
  times.forward_waits = times.forward - forward;
  for (const LayerWork& layer : layers) {
    if (zero == 3) times.gathers += layer.exchange;
    times.stores += layer.store.link;
  }
  const bool moves = std::ranges::any_of(
      layers, [](const LayerWork& layer) { return is_moved(layer.store) || is_moved(layer.load); });
  if (!moves) {
    // Sums in another order round.
    times.exposed = std::max(Seconds{0}, times.forward - forward + (times.backward - backward));
    return times;
  }
  std::vector<LayerWork> still(layers.begin(), layers.end());
  for (LayerWork& layer : still) layer.store = layer.load = {};
  const PhaseTimes without = overlapped(still, zero, update);
  times.exposed = without.exposed;
  times.moving = times.forward - without.forward + (times.backward - without.backward);
  return times;
}

}  // namespace dos::planner
