// SPDX-License-Identifier: Apache-2.0
#include "planner/memory.hpp"

#include <algorithm>
#include <map>

#include "base/activation_count.hpp"
#include "base/logits_stride.hpp"

namespace dos::planner {
namespace {

/// CUDA context, cuBLAS work spaces, communication buffers and fragmentation: assumed.
constexpr units::Bytes kReserve{1.5e9};
/// Rows of logits that exist at a time: train.logits_rows.
constexpr double kLogitRows = 512;
constexpr double kFp32 = 4;

double value_bytes(const Settings& settings) {
  return settings.fp32 ? 4 : 2;
}

double real(Index value) {
  return static_cast<double>(value);
}

Index largest_layer(const ModelShape& shape) {
  std::map<Index, Index> by_depth;
  for (const TensorSize& tensor : shape.tensors) by_depth[tensor.depth] += tensor.params;
  Index most = 0;
  for (const auto& [depth, params] : by_depth) most = std::max(most, params);
  return most;
}

/// What train_gpt would register for so many tokens (base/activation_count.hpp).
double activation_bytes(const ModelShape& shape, const Settings& settings, double tokens) {
  const BlockWidths widths{.layers = shape.layers,
                           .width = shape.width,
                           .heads = shape.heads,
                           .kv_width = shape.width / shape.heads * shape.kv_heads,
                           .ffn = shape.ffn,
                           .gated = shape.gated};
  const ActivationCount token = count_training(widths, settings.recompute);
  return tokens * (value_bytes(settings) * real(token.values) + kFp32 * real(token.wide));
}

/// In place: gradients take the place of logits.
double logits_bytes(const ModelShape& shape, const Settings& settings, double tokens) {
  return value_bytes(settings) * std::min(tokens, kLogitRows) *
         real(logits_stride(shape.vocabulary));
}

constexpr const char* kGathered = "gathered weights";
constexpr const char* kGradients = "gradients";
constexpr const char* kReduced = "gradients on their way";
constexpr const char* kActivations = "activations";
constexpr const char* kLogits = "logits";

/// Weights that are whole for a while where ranks share them: of the layer at work and the next.
double gathered_bytes(const ModelShape& shape, const Layout& layout, const Settings& settings) {
  if (layout.devices == 1 || settings.zero < 3) return 0;
  return 2 * value_bytes(settings) * real(largest_layer(shape));
}

/// Gradients that are whole for a while: each is reduced as soon as it is there, so what the layer
/// at work has made takes the place of what the one behind it has sent.
double reduced_bytes(const ModelShape& shape, const Layout& layout, const Settings& settings) {
  if (layout.devices == 1 || settings.zero < 2) return 0;
  return value_bytes(settings) * real(largest_layer(shape));
}

/// What a node without GPU holds beside its ranks' own states, gradients and working parameters:
/// what is not shared, and activations.
void add_cpu_training(const ModelShape& shape, const Layout& layout, const Settings& settings,
                      units::Params mine, MemoryUse& use) {
  const double bytes = value_bytes(settings);
  const double ranks = real(layout.ranks_per_node);
  const units::Bytes of_others(ranks * bytes * (real(shape.params()) - mine.value()));
  use.items.push_back(
      settings.zero == 3
          ? MemoryItem{kGathered, units::Bytes(ranks * gathered_bytes(shape, layout, settings))}
          : MemoryItem{"others' working parameters", of_others});
  use.items.push_back(
      settings.zero >= 2
          ? MemoryItem{kReduced, units::Bytes(ranks * reduced_bytes(shape, layout, settings))}
          : MemoryItem{"others' gradients", of_others});
  use.items.push_back(
      {kActivations, units::Bytes(ranks * activation_bytes(shape, settings, layout.tokens))});
  use.items.push_back(
      {kLogits, units::Bytes(ranks * logits_bytes(shape, settings, layout.tokens))});
}

}  // namespace

bool adds_on_host(const Layout& layout, const Settings& settings) {
  return layout.devices > layout.devices_per_rank && !settings.policy.published &&
         settings.exchange == ExchangeWay::kDirect;
}

units::Bytes MemoryUse::total() const {
  units::Bytes sum{0};
  for (const MemoryItem& item : items) sum += item.bytes;
  return sum;
}

MemoryUse gpu_use(const GpuDemand& demand, units::Bytes available, double gradient_share) {
  const units::Bytes flushed = std::min(demand.gradients, demand.gradient_buffers);
  const units::Bytes own = std::max(demand.gradients * gradient_share, flushed);
  return {.items = {{"weights", demand.weights},
                    {kGathered, demand.gathered, /*in_update=*/false},
                    {kGradients, own + demand.others_gradients},
                    {kReduced, demand.reduced, /*in_update=*/false},
                    {kActivations, demand.activations, /*in_update=*/false},
                    {kLogits, demand.logits, /*in_update=*/false},
                    demand.rest},
          .available = available};
}

MemoryUse gpu_peak(const ModelShape& shape, const Layout& layout, const Settings& settings,
                   units::Bytes available, double gradient_share) {
  const double bytes = value_bytes(settings);
  const double all = bytes * real(shape.params());
  const double mine = all / real(layout.devices);
  return gpu_use({.weights = units::Bytes(settings.zero == 3 ? mine : all),
                  .gathered = units::Bytes(gathered_bytes(shape, layout, settings)),
                  .gradients = units::Bytes(mine),
                  .gradient_buffers = units::Bytes(2 * bytes * real(largest_layer(shape))),
                  .others_gradients = units::Bytes(settings.zero == 1 ? all - mine : 0),
                  .reduced = units::Bytes(reduced_bytes(shape, layout, settings)),
                  .activations = units::Bytes(activation_bytes(shape, settings, layout.tokens)),
                  .logits = units::Bytes(logits_bytes(shape, settings, layout.tokens)),
                  .rest = {"reserve", kReserve}},
                 available, gradient_share);
}

sched::StateMemory state_memory(const MemoryUse& peak) {
  units::Bytes in_update{0};
  for (const MemoryItem& item : peak.items)
    if (item.in_update) in_update += item.bytes;
  const units::Bytes none{0};
  return {.update = std::max(none, peak.available - in_update),
          .resident = std::max(none, peak.available - peak.total())};
}

bool needs_dead_activations(const sched::StateMemory& memory, units::Bytes update) {
  return memory.resident < update * kUpdatesAtWork;
}

void add_states(units::Bytes resident, units::Bytes window, units::Bytes dead, MemoryUse& use) {
  use.items.push_back({"resident states", resident});
  use.items.push_back(
      {"update window beyond activations", std::max(units::Bytes{0}, window - dead)});
}

MemoryUse host_use(const ModelShape& shape, const Layout& layout, const Settings& settings,
                   const sched::Problem& problem, const sched::Plan& plan, units::Bytes available) {
  const units::Params mine = problem.total() * real(layout.ranks_per_node);
  const double resident = plan.share(problem, sched::Placement::kResident);
  const double on_cpu = plan.share(problem, sched::Placement::kCpu);
  const bool adds = adds_on_host(layout, settings);
  // The published code keeps FP32 gradients on the host.
  const double gradient = settings.policy.published ? kFp32 : value_bytes(settings);
  const units::BytesPerParam gradients(adds ? kSumBytes : on_cpu * gradient);
  const units::BytesPerParam weight(settings.fp32 ? 0 : 2);
  MemoryUse use{.items = {{"states", mine * (1 - resident) * problem.cost.state},
                          {kGradients, mine * gradients},
                          {"working parameters", mine * on_cpu * weight}},
                .available = available};
  if (problem.gpus() == 0) add_cpu_training(shape, layout, settings, problem.total(), use);
  return use;
}

}  // namespace dos::planner
