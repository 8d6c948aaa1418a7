// SPDX-License-Identifier: Apache-2.0
#include "planner/phases.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/real.hpp"

namespace dos::planner {
namespace {

/// The time of exchanging so many parameters or gradients of each depth.
std::vector<units::Seconds> exchanges(const Wire& wire, const std::vector<Index>& params,
                                      const PlanSettings& settings) {
  std::vector<units::Seconds> times;
  for (const Index count : params)
    times.push_back(count == 0 ? units::Seconds(0)
                               : wire.time(units::Bytes((settings.fp32 ? 4 : 2) * real(count))));
  return times;
}

/// What each depth exchanges with other ranks.
struct Exchanges {
  std::vector<units::Seconds> weights;
  std::vector<units::Seconds> reductions;
};

/// What is gathered is all of a depth's weights, what owners send is what they have updated.
Exchanges exchanges_of(const shape::Model& model, const Wire& wire, const PlanSettings& settings) {
  Exchanges result;
  result.reductions = exchanges(wire, model.trained_by_depth(), settings);
  result.weights =
      settings.zero == 3 ? exchanges(wire, model.params_by_depth(), settings) : result.reductions;
  return result;
}

/// Everything one after the other, in one collective a phase and kind.
PhaseTimes in_turn(const std::vector<LayerWork>& layers) {
  PhaseTimes times;
  for (const LayerWork& layer : layers) {
    times.forward += layer.forward + layer.exchange;
    times.backward += layer.backward + (layer.exchange + layer.reduction);
    times.exposed += layer.exchange * 2 + layer.reduction;
  }
  return times;
}

/// As the published code has them, in which everything waits for everything.
PhaseTimes published_times(const shape::Model& model, const perfmodels::Machine& machine,
                           const Deployment& layout, const PlanSettings& settings,
                           units::Params flushed) {
  expect(settings.activations == shape::kRecomputeAll || settings.activations.keeps_all(),
         "sched.published=true: the published code recomputes or keeps all activations: leave "
         "train.activations out, or keep");
  PlanSettings way = settings;
  way.exchange = ExchangeWay::kCollective;
  Wire wire = wire_of(machine, layout, way);
  wire.latency = units::Seconds(0);
  const Exchanges exchanges = exchanges_of(model, wire, settings);
  const PassModel passes(model, pass_rates_of(machine, layout, DType::kBF16), layout.tokens,
                         DType::kBF16);
  std::vector<LayerWork> layers = passes.layers({});
  for (std::size_t depth = 0; depth < layers.size(); ++depth) {
    LayerWork& layer = layers[depth];
    layer.exchange = exchanges.weights[depth];
    layer.reduction = exchanges.reductions[depth];
    if (!settings.activations.keeps_all() && layer.backward > units::Seconds(0))
      layer.backward += layer.forward;
  }
  PhaseTimes times = in_turn(layers);
  if (machine.gpus.value == 0) return times;
  if (settings.flush_is_blocking)
    times.backward += flushed / machine.published.value().blocking_flush.value;
  else
    // The cast is on the GPU, and FP32 moves.
    times.backward =
        std::max(times.backward, flushed * units::BytesPerParam(4) / machine.d2h.value);
  return times;
}

}  // namespace

PassModel pass_model(const shape::Model& model, const perfmodels::Machine& machine,
                     const Deployment& layout, const PlanSettings& settings, units::Params flushed,
                     units::Seconds update) {
  const double value = settings.fp32 ? 4 : 2;
  const DType type = settings.fp32 ? DType::kF32 : DType::kBF16;
  PassModel passes(model, pass_rates_of(machine, layout, type), layout.tokens, type);
  const Wire wire = wire_of(machine, layout, settings);
  const Exchanges exchanges = exchanges_of(model, wire, settings);
  passes.exchange(exchanges.weights, exchanges.reductions, settings.zero, update);
  PassTraffic traffic{.out_backward = flushed * units::BytesPerParam(value)};
  if (adds_on_host(layout, settings)) {
    const Index gathered = settings.zero == 3 ? model.params() : model.trained_params();
    traffic.in = units::Bytes(value * real(gathered) * (1 - 1 / real(layout.ranks())));
  }
  passes.share_link(traffic);
  return passes;
}

PhaseTimes phase_times(const shape::Model& model, const perfmodels::Machine& machine,
                       const Deployment& layout, const PlanSettings& settings,
                       units::Params flushed, units::Seconds update, const DiskLoad& disks) {
  if (settings.policy.published) return published_times(model, machine, layout, settings, flushed);
  expect(!settings.flush_is_blocking || machine.gpus.value == 0,
         "sched.flush_mode=blocking: only the published code does so: add "
         "sched.published=true or leave it out");
  PassModel passes = pass_model(model, machine, layout, settings, flushed, update);
  passes.share_disks(disks);
  return passes.times(settings.activations);
}

std::vector<sched::DepthPasses> depth_passes(const shape::Model& model, const PhaseTimes& phases) {
  const units::Flops all = forward_flops(model);
  std::vector<sched::DepthPasses> depths;
  for (const units::Flops& flops : forward_flops_by_depth(model)) {
    const double part = flops / all;
    depths.push_back({.forward = phases.forward * part, .backward = phases.backward * part});
  }
  return depths;
}

}  // namespace dos::planner
