// SPDX-License-Identifier: Apache-2.0
#include "planner/phases.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace dos::planner {
namespace {

double real(Index value) {
  return static_cast<double>(value);
}

/// FLOP of the products of a token with the parameters that `counts` accepts, by depth.
template <class Counts>
std::vector<units::Flops> product_flops(const shape::Model& model, const Counts& counts) {
  std::vector<units::Flops> flops(static_cast<std::size_t>(model.depths()));
  const std::string head = shape::head_of(model.config);
  for (const shape::ParameterSpec& spec : model.parameters) {
    const bool is_head = spec.name == head;
    // A table that is only looked up costs no product; a tied one is multiplied at the end.
    if ((spec.is_table && !is_head) || !counts(spec)) continue;
    flops[is_head ? flops.size() - 1 : static_cast<std::size_t>(spec.depth)] +=
        units::Flops(2 * real(spec.count()));
  }
  return flops;
}

/// The time of exchanging so many parameters or gradients of each depth.
std::vector<units::Seconds> exchanges(const Wire& wire, const std::vector<Index>& params,
                                      const PlanSettings& settings) {
  std::vector<units::Seconds> times;
  for (const Index count : params)
    times.push_back(count == 0 ? units::Seconds(0)
                               : wire.time(units::Bytes((settings.fp32 ? 4 : 2) * real(count))));
  return times;
}

/// FLOP of backward over those of forward, by depth: one for gradients of activations, one of
/// products with weights that are trained, one more with recompute; none below the first depth that
/// is trained.
std::vector<double> backward_ratios(const shape::Model& model, bool recompute) {
  const std::vector<units::Flops> forward = forward_flops_by_depth(model);
  const std::vector<units::Flops> frozen =
      product_flops(model, [](const shape::ParameterSpec& spec) { return !spec.trained; });
  std::vector<double> ratios;
  for (std::size_t depth = 0; depth < forward.size(); ++depth) {
    const bool is_reached = static_cast<Index>(depth) >= model.first_trained_depth();
    const double saved = forward[depth].value() > 0 ? frozen[depth] / forward[depth] : 0;
    ratios.push_back(is_reached ? (recompute ? 3.0 : 2.0) - saved : 0);
  }
  return ratios;
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

}  // namespace

std::vector<units::Flops> forward_flops_by_depth(const shape::Model& model) {
  std::vector<units::Flops> flops =
      product_flops(model, [](const shape::ParameterSpec& /*all*/) { return true; });
  // Two products a head, over the tokens that one attends to: 1 .. reach, then always reach.
  const double reach = real(model.config.reach());
  const double keys = reach - reach * reach / (2 * real(model.config.context));
  const units::Flops attention(4 * keys * real(model.config.attention_width()));
  for (Index layer = 1; layer <= model.config.layers; ++layer)
    flops[static_cast<std::size_t>(layer)] += attention;
  return flops;
}

units::Flops forward_flops(const shape::Model& model) {
  units::Flops sum{0};
  for (const units::Flops flops : forward_flops_by_depth(model)) sum += flops;
  return sum;
}

PhaseTimes phase_times(const shape::Model& model, const perfmodels::Machine& machine,
                       const Deployment& layout, const PlanSettings& settings,
                       units::Params flushed, units::Seconds update) {
  // A CPU's rate is that of the node, divided among its ranks.
  const double part = machine.gpus.value > 0 ? 1 : real(layout.ranks_per_node);
  const bool published = settings.policy.published;
  PlanSettings way = settings;
  if (published) way.exchange = ExchangeWay::kCollective;
  Wire wire = wire_of(machine, layout, way);
  if (published) wire.latency = units::Seconds(0);
  const std::vector<units::Flops> flops = forward_flops_by_depth(model);
  const std::vector<double> ratios = backward_ratios(model, settings.recompute);
  const std::vector<units::Seconds> reductions =
      exchanges(wire, model.trained_by_depth(), settings);
  // What is gathered is all of it, what owners send is what they have updated.
  const std::vector<units::Seconds> weights =
      settings.zero == 3 ? exchanges(wire, model.params_by_depth(), settings) : reductions;
  std::vector<LayerWork> layers;
  for (std::size_t depth = 0; depth < flops.size(); ++depth) {
    const units::Seconds forward =
        flops[depth] * (layout.tokens * part) / machine.training_rate.value;
    layers.push_back({.forward = forward,
                      .backward = forward * ratios[depth],
                      .exchange = weights[depth],
                      .reduction = reductions[depth]});
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
