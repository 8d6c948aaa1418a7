// SPDX-License-Identifier: Apache-2.0
#include "planner/memory.hpp"

#include <algorithm>

#include "sched/gradients.hpp"
#include "sched/interleave.hpp"
#include "sched/replay.hpp"

namespace dos::planner {
namespace {

/// CUDA context, cuBLAS work spaces, communication buffers and fragmentation: assumed.
constexpr units::Bytes kReserve{1.5e9};
/// Rows of logits that exist at a time: train.logits_rows.
constexpr double kLogitRows = 512;
constexpr double kFp32 = 4;

double value_bytes(const PlanSettings& settings) {
  return settings.fp32 ? 4 : 2;
}

double real(Index value) {
  return static_cast<double>(value);
}

Index largest_layer(const shape::Model& model) {
  return std::ranges::max(model.params_by_depth());
}
/// By what of it is trained.
Index largest_trained_layer(const shape::Model& model) {
  return std::ranges::max(model.trained_by_depth());
}

/// Frozen parameters in the host memory of a node, where they are as forward reads them: all of
/// them for each rank, and with ZeRO-3 those that it owns. Without GPU and below ZeRO-3 they are
/// counted among the parameters that a rank computes with.
double frozen_bytes(const shape::Model& model, const Deployment& layout,
                    const PlanSettings& settings, bool gpu) {
  const double frozen = value_bytes(settings) * real(model.params() - model.trained_params());
  const double ranks = real(layout.devices) / real(layout.devices_per_rank);
  const bool is_whole = settings.zero < 3;
  if (is_whole && !gpu) return 0;
  return frozen * real(layout.ranks_per_node) / (is_whole ? 1 : ranks);
}

/// Trained parameters in the host memory of a node whose GPUs they pass through, beside what is
/// part of states: all of them for each rank, and with ZeRO-3 the node's `mine`.
units::Bytes passing_bytes(const shape::Model& model, const Deployment& layout,
                           const PlanSettings& settings, units::Params mine) {
  const units::BytesPerParam value(value_bytes(settings));
  const units::Params whole(real(model.trained_params() * layout.ranks_per_node));
  const units::Params all = settings.zero < 3 ? whole : mine;
  return (all - (settings.fp32 ? mine : units::Params(0))) * value;
}

shape::Passes passes_of(const shape::Model& model, const PlanSettings& settings) {
  return {.training = true,
          .plan = settings.activations,
          .reached = shape::reached_blocks(model.config, model.first_trained_depth())};
}

double bytes_of(const shape::ActivationCount& token, const PlanSettings& settings, double tokens) {
  return tokens * real(token.bytes(size_of(settings.fp32 ? DType::kF32 : DType::kBF16)));
}

/// What train_gpt would register for so many tokens.
double activation_bytes(const shape::Model& model, const PlanSettings& settings, double tokens) {
  return bytes_of(shape::count_activations(*model.family, model.config, passes_of(model, settings)),
                  settings, tokens);
}

/// In place: gradients take the place of logits.
double logits_bytes(const shape::Model& model, const PlanSettings& settings, double tokens) {
  return value_bytes(settings) * std::min(tokens, kLogitRows) *
         real(shape::logits_stride(model.config.vocabulary));
}

/// Weights that are whole for a while where ranks share them: of the layer at work and the next.
double gathered_bytes(const shape::Model& model, const Deployment& layout,
                      const PlanSettings& settings) {
  if (layout.devices == 1 || settings.zero < 3) return 0;
  return 2 * value_bytes(settings) * real(largest_layer(model));
}

/// Gradients that are whole for a while: each is reduced as soon as it is there, so what the layer
/// at work has made takes the place of what the one behind it has sent.
double reduced_bytes(const shape::Model& model, const Deployment& layout,
                     const PlanSettings& settings) {
  if (layout.devices == 1 || settings.zero < 2) return 0;
  return value_bytes(settings) * real(largest_trained_layer(model));
}

/// What a node without GPU holds beside its ranks' own states, gradients and working parameters:
/// what is not shared, and activations.
void add_cpu_training(const shape::Model& model, const Deployment& layout,
                      const PlanSettings& settings, units::Params mine, MemoryUse& use) {
  const double bytes = value_bytes(settings);
  const double ranks = real(layout.ranks_per_node);
  const units::Bytes of_others(ranks * bytes * (real(model.params()) - mine.value()));
  const units::Bytes gradients_of_others(ranks * bytes *
                                         (real(model.trained_params()) - mine.value()));
  use.items.push_back(
      settings.zero == 3 ? MemoryItem{MemoryCategory::kGathered,
                                      units::Bytes(ranks * gathered_bytes(model, layout, settings))}
                         : MemoryItem{MemoryCategory::kOthersWorking, of_others});
  use.items.push_back(settings.zero >= 2
                          ? MemoryItem{MemoryCategory::kReduced,
                                       units::Bytes(ranks * reduced_bytes(model, layout, settings))}
                          : MemoryItem{MemoryCategory::kOthersGradients, gradients_of_others});
  use.items.push_back({MemoryCategory::kActivations,
                       units::Bytes(ranks * activation_bytes(model, settings, layout.tokens)) +
                           moved_activations(model, layout, settings, shape::Refill::kHost)});
  use.items.push_back({MemoryCategory::kLogits,
                       units::Bytes(ranks * logits_bytes(model, settings, layout.tokens))});
}

}  // namespace

bool adds_on_host(const Deployment& layout, const PlanSettings& settings) {
  return layout.devices > layout.devices_per_rank && !settings.policy.published &&
         settings.exchange == ExchangeWay::kDirect;
}

units::Bytes moved_activations(const shape::Model& model, const Deployment& layout,
                               const PlanSettings& settings, shape::Refill where) {
  const double devices = real(layout.ranks_per_node * layout.devices_per_rank);
  return units::Bytes(devices * bytes_of(shape::count_moved(*model.family, model.config,
                                                            passes_of(model, settings), where),
                                         settings, layout.tokens));
}

units::Bytes MemoryUse::of(MemoryCategory category) const {
  const auto item = std::ranges::find(items, category, &MemoryItem::category);
  return item == items.end() ? units::Bytes{0} : item->bytes;
}

units::Bytes MemoryUse::total() const {
  units::Bytes sum{0};
  for (const MemoryItem& item : items) sum += item.bytes;
  return sum;
}

namespace {

/// `part` of all, but no less than their buffers.
units::Bytes held(units::Bytes all, units::Bytes buffers, double part) {
  const units::Bytes least = std::min(all, buffers);
  return least + (all - least) * part;
}

}  // namespace

MemoryUse gpu_use(const GpuDemand& demand, units::Bytes available, const Staying& staying) {
  const units::Bytes weights = held(demand.weights, demand.weight_buffers, staying.weights);
  const units::Bytes own = held(demand.gradients, demand.gradient_buffers, staying.gradients);
  return {.items = {{MemoryCategory::kWeights, weights},
                    {MemoryCategory::kGathered, demand.gathered, /*in_update=*/false},
                    {MemoryCategory::kGradients, own + demand.others_gradients},
                    {MemoryCategory::kReduced, demand.reduced, /*in_update=*/false},
                    {MemoryCategory::kActivations, demand.activations, /*in_update=*/false},
                    {MemoryCategory::kLogits, demand.logits, /*in_update=*/false},
                    demand.rest},
          .available = available};
}

units::Bytes let_weights_pass(MemoryUse& use, units::Bytes buffers) {
  units::Bytes& weights =
      std::ranges::find(use.items, MemoryCategory::kWeights, &MemoryItem::category)->bytes;
  const units::Bytes none{0};
  const units::Bytes passing =
      std::clamp(use.total() - use.available, none, std::max(none, weights - buffers));
  weights = weights - passing;
  return passing;
}

GpuDemand gpu_demand(const shape::Model& model, const Deployment& layout,
                     const PlanSettings& settings) {
  const double bytes = value_bytes(settings);
  const double all = bytes * real(model.params());
  const double trained = bytes * real(model.trained_params());
  const double mine = trained / real(layout.devices);
  return {.weights = units::Bytes(settings.zero == 3 ? all / real(layout.devices) : all),
          .weight_buffers = units::Bytes(2 * bytes * real(largest_layer(model))),
          .gathered = units::Bytes(gathered_bytes(model, layout, settings)),
          .gradients = units::Bytes(mine),
          .gradient_buffers = units::Bytes(2 * bytes * real(largest_trained_layer(model))),
          .others_gradients = units::Bytes(settings.zero == 1 ? trained - mine : 0),
          .reduced = units::Bytes(reduced_bytes(model, layout, settings)),
          .activations = units::Bytes(activation_bytes(model, settings, layout.tokens)),
          .logits = units::Bytes(logits_bytes(model, settings, layout.tokens)),
          .rest = {MemoryCategory::kReserve, kReserve}};
}

MemoryUse gpu_peak(const shape::Model& model, const Deployment& layout,
                   const PlanSettings& settings, units::Bytes available, const Staying& staying) {
  return gpu_use(gpu_demand(model, layout, settings), available, staying);
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
  return memory.resident < update * sched::kUpdatesAtWork;
}

void add_states(units::Bytes resident, units::Bytes window, units::Bytes dead, MemoryUse& use) {
  use.items.push_back({MemoryCategory::kResidentStates, resident});
  use.items.push_back({MemoryCategory::kUpdateWindow, std::max(units::Bytes{0}, window - dead)});
}

MemoryUse host_use(const shape::Model& model, const Deployment& layout,
                   const PlanSettings& settings, const sched::Problem& problem,
                   const sched::Plan& plan, units::Bytes available) {
  const units::Params mine = problem.total() * real(layout.ranks_per_node);
  const double elsewhere =
      plan.share(problem, [](const sched::Assignment& each) { return each.home != sched::kHost; });
  const double on_cpu = plan.share(problem, &sched::is_on_cpu);
  const bool adds = adds_on_host(layout, settings);
  // The published code keeps FP32 gradients on the host.
  const double gradient = settings.policy.published ? kFp32 : value_bytes(settings);
  const units::BytesPerParam gradients(adds ? kSumBytes : on_cpu * gradient);
  const units::BytesPerParam weight(settings.fp32 ? 0 : 2);
  // With those on their way through host memory, where some live behind it.
  const units::Bytes states =
      sched::lives_behind_host(problem, plan)
          ? sched::replay(problem, plan).host_peak * real(layout.ranks_per_node)
          : mine * (1 - elsewhere) * problem.cost.state;
  MemoryUse use{.items = {{MemoryCategory::kStatesWithParameters, states},
                          {MemoryCategory::kGradients, mine * gradients},
                          {MemoryCategory::kWorking, mine * on_cpu * weight}},
                .available = available};
  if (plan.overflow > units::Bytes{0})
    use.items.back().bytes = passing_bytes(model, layout, settings, mine);
  const double frozen = frozen_bytes(model, layout, settings, problem.gpus() > 0);
  if (frozen > 0) use.items.push_back({MemoryCategory::kFrozen, units::Bytes(frozen)});
  if (settings.checkpoint_memory.value() > 0)
    use.items.push_back(
        {MemoryCategory::kCheckpoints, settings.checkpoint_memory * real(layout.ranks_per_node)});
  const units::Bytes hosted = moved_activations(model, layout, settings, shape::Refill::kHost);
  if (problem.gpus() > 0 && hosted > units::Bytes{0})
    use.items.push_back({MemoryCategory::kActivations, hosted});
  if (problem.gpus() == 0) add_cpu_training(model, layout, settings, problem.total(), use);
  return use;
}

units::Bytes host_memory_for_states(const shape::Model& model, const Deployment& layout,
                                    const PlanSettings& settings, const sched::Problem& problem,
                                    units::Bytes available) {
  // Updates of the CPU need most beside their states.
  const MemoryUse all =
      host_use(model, layout, settings, problem, sched::all_cpu(problem), available);
  const units::Bytes beside = all.total() - all.of(MemoryCategory::kStatesWithParameters);
  return std::max(units::Bytes{0}, available - beside) / real(layout.ranks_per_node);
}

}  // namespace dos::planner
