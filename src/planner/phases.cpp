// SPDX-License-Identifier: Apache-2.0
#include "planner/phases.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"

namespace dos::planner {
namespace {

double real(Index value) {
  return static_cast<double>(value);
}

std::vector<units::Bytes> weights_by_depth(const ModelShape& shape, const Settings& settings,
                                           std::size_t depths) {
  std::vector<units::Bytes> weights(depths);
  for (const TensorSize& tensor : shape.tensors)
    weights[static_cast<std::size_t>(tensor.depth)] +=
        units::Bytes((settings.fp32 ? 4 : 2) * real(tensor.params));
  return weights;
}

/// Everything one after the other, in one collective a phase and kind.
PhaseTimes in_turn(const std::vector<LayerWork>& layers) {
  PhaseTimes times;
  for (const LayerWork& layer : layers) {
    times.forward += layer.forward + layer.exchange;
    times.backward += layer.backward + layer.exchange * 2;
    times.exposed += layer.exchange * 3;
  }
  return times;
}

}  // namespace

std::vector<units::Flops> forward_flops_by_depth(const ModelShape& shape) {
  Index last = shape.layers;
  for (const TensorSize& tensor : shape.tensors) last = std::max(last, tensor.depth);
  std::vector<units::Flops> flops(static_cast<std::size_t>(last) + 1);
  for (const TensorSize& tensor : shape.tensors)
    flops[static_cast<std::size_t>(tensor.depth)] += units::Flops(2 * real(tensor.params));
  // A table that is only looked up costs no product; a tied one is multiplied at the end.
  const double table = shape.gated ? real(shape.vocabulary) * real(shape.width)
                                   : real(shape.context) * real(shape.width);
  flops.front() -= units::Flops(2 * table);
  if (!shape.gated && flops.size() > 1)
    flops.back() += std::exchange(flops.front(), units::Flops(0));
  const units::Flops attention(2 * real(shape.context) * real(shape.width));
  for (Index layer = 1; layer <= shape.layers; ++layer)
    flops[static_cast<std::size_t>(layer)] += attention;
  return flops;
}

units::Flops forward_flops(const ModelShape& shape) {
  units::Flops sum{0};
  for (const units::Flops flops : forward_flops_by_depth(shape)) sum += flops;
  return sum;
}

PhaseTimes phase_times(const ModelShape& shape, const perfmodels::Machine& machine,
                       const Layout& layout, const Settings& settings, units::Params flushed,
                       units::Seconds update) {
  // A CPU's rate is that of the node, divided among its ranks.
  const double part = machine.gpus.value > 0 ? 1 : real(layout.ranks_per_node);
  const bool published = settings.policy.published;
  Settings way = settings;
  if (published) way.exchange = ExchangeWay::kCollective;
  Wire wire = wire_of(machine, layout, way);
  if (published) wire.latency = units::Seconds(0);
  const std::vector<units::Flops> flops = forward_flops_by_depth(shape);
  const std::vector<units::Bytes> weights = weights_by_depth(shape, settings, flops.size());
  std::vector<LayerWork> layers;
  for (std::size_t depth = 0; depth < flops.size(); ++depth) {
    const units::Seconds forward =
        flops[depth] * (layout.tokens * part) / machine.training_rate.value;
    layers.push_back({.forward = forward,
                      .backward = forward * (settings.recompute ? 3.0 : 2.0),
                      .exchange = wire.time(weights[depth])});
  }
  PhaseTimes times = published ? in_turn(layers) : overlapped(layers, settings.zero, update);
  if (machine.gpus.value == 0) return times;
  if (settings.flush_is_blocking) {
    expect(published,
           "sched.flush_mode=blocking: only the published code does so: add "
           "sched.published=true or leave it out");
    times.backward += flushed / machine.published.value().blocking_flush.value;
  } else {
    // The published code casts on the GPU and moves FP32.
    const units::BytesPerParam bytes(published || settings.fp32 ? 4 : 2);
    times.backward = std::max(times.backward, flushed * bytes / machine.d2h.value);
  }
  return times;
}

}  // namespace dos::planner
