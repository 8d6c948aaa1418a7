// SPDX-License-Identifier: Apache-2.0
#include "planner/memory.hpp"

#include <algorithm>
#include <map>

#include "base/real.hpp"
#include "planner/runtime_bytes.hpp"
#include "sched/gradients.hpp"
#include "sched/interleave.hpp"
#include "sched/replay.hpp"
#include "shape/home_split.hpp"
#include "shape/owners.hpp"

namespace dos::planner {
namespace {

/// CUDA context, cuBLAS work spaces, communication buffers and fragmentation: assumed.
constexpr units::Bytes kReserve{1.5e9};
constexpr double kFp32 = 4;

double value_bytes(const PlanSettings& settings) {
  return settings.fp32 ? 4 : 2;
}

Index largest_layer(const shape::Model& model) {
  return std::ranges::max(model.params_by_depth());
}
/// By what of it is trained.
Index largest_trained_layer(const shape::Model& model) {
  return std::ranges::max(model.trained_by_depth());
}

/// Frozen parameters in the host memory of a node, where they are as forward reads them: with
/// ZeRO-3 those that a rank owns. Below it they are counted among the parameters of others.
double frozen_bytes(const shape::Model& model, const Deployment& layout,
                    const PlanSettings& settings) {
  if (settings.zero < 3) return 0;
  const double frozen = value_bytes(settings) * real(model.params() - model.trained_params());
  return frozen * real(layout.ranks_per_node) / real(layout.ranks());
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
double logits_bytes(const shape::Model& model, const PlanSettings& settings, double tokens,
                    const shape::LaneWorkers& workers) {
  return value_bytes(settings) * std::min(tokens, real(workers.logits_rows())) *
         real(shape::logits_stride(model.config.vocabulary));
}

/// Weights that are whole for a while where ranks share them: of the layer at work and the next.
double gathered_bytes(const shape::Model& model, const Deployment& layout,
                      const PlanSettings& settings) {
  if (layout.ranks() == 1 || settings.zero < 3) return 0;
  return 2 * value_bytes(settings) * real(largest_layer(model));
}

/// Gradients that are whole for a while: each is reduced as soon as it is there, so what the layer
/// at work has made takes the place of what the one behind it has sent.
double reduced_bytes(const shape::Model& model, const Deployment& layout,
                     const PlanSettings& settings) {
  if (layout.ranks() == 1 || settings.zero < 2) return 0;
  return value_bytes(settings) * real(largest_trained_layer(model));
}

/// Parameters in the buffers that a rank has for what others own (tensor::Slots).
struct InSlots {
  Index shared = 0;   ///< of depths that are alike, which share two sets
  Index of_each = 0;  ///< of the first and the rest, which have their own
};

InSlots params_in_slots(const std::vector<Index>& by_depth) {
  std::map<Index, Index> alike;
  for (std::size_t depth = 1; depth < by_depth.size(); ++depth) ++alike[by_depth[depth]];
  InSlots result{.of_each = by_depth.front()};
  for (const auto& [params, depths] : alike) {
    const bool is_shared = depths > shape::kSlotSets;
    (is_shared ? result.shared : result.of_each) += params * std::min(depths, shape::kSlotSets);
  }
  return result;
}

/// What a node holds beside the sums of its ranks' gradients and working parameters of their own:
/// those of other ranks, for ever or while they are whole. With GPUs, too: each has a home.
void add_of_others(const shape::Model& model, const Deployment& layout,
                   const PlanSettings& settings, const sched::Problem& problem, MemoryUse& use) {
  const double mine = problem.total().value();
  const double ranks = real(layout.ranks_per_node);
  const units::BytesPerParam bytes(ranks * value_bytes(settings));
  const auto add = [&](MemoryCategory category, double params) {
    if (params > 0) use.items.push_back({category, units::Params(params) * bytes});
  };
  const double all_ranks = real(layout.ranks());
  if (settings.zero < 3) {
    add(MemoryCategory::kOthersWorking, real(model.params()) - mine);
  } else if (all_ranks > 1) {
    const InSlots slots = params_in_slots(model.params_by_depth());
    add(MemoryCategory::kGathered, real(slots.shared) + real(slots.of_each) * (1 - 1 / all_ranks));
  }
  const bool adds = adds_on_host(layout, settings);
  double on_their_way = adds ? real(shape::kReceiveBuffers * problem.largest()) : 0;
  if (settings.zero < 2) {
    // FP32 gradients of a rank's own take up the sums.
    add(MemoryCategory::kOthersGradients,
        real(model.trained_params()) - (adds && !settings.fp32 ? 0 : mine));
  } else if (all_ranks > 1) {
    const InSlots slots = params_in_slots(model.trained_by_depth());
    on_their_way += real(slots.shared + slots.of_each);
  }
  add(MemoryCategory::kReduced, on_their_way);
}

/// What a node without GPU holds besides.
void add_activations(const shape::Model& model, const Deployment& layout,
                     const PlanSettings& settings, Index workers, MemoryUse& use) {
  const double ranks = real(layout.ranks_per_node);
  const double sequences = layout.tokens / real(model.config.context);
  const double lanes = std::clamp(sequences, 1.0, real(workers));
  use.items.push_back({MemoryCategory::kActivations,
                       units::Bytes(ranks * activation_bytes(model, settings, layout.tokens)) +
                           moved_activations(model, layout, settings, shape::Refill::kHost)});
  use.items.push_back(
      {MemoryCategory::kLogits,
       units::Bytes(ranks * lanes * logits_bytes(model, settings, layout.tokens / lanes, {}))});
}

/// What a node with GPUs holds of activations: slots for those that go there, and what they and
/// those that go to disks come through.
units::Bytes passing_activations(const shape::Model& model, const Deployment& layout,
                                 const PlanSettings& settings) {
  const double devices = real(layout.ranks_per_node * layout.devices_per_rank);
  const shape::ActivationCount in_transit =
      shape::count_in_transit(*model.family, model.config, passes_of(model, settings));
  return moved_activations(model, layout, settings, shape::Refill::kHost) +
         units::Bytes(devices * bytes_of(in_transit, settings, layout.tokens));
}

}  // namespace

bool adds_on_host(const Deployment& layout, const PlanSettings& settings) {
  return layout.ranks() > 1 && !settings.policy.published &&
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
  const double mine = trained / real(layout.ranks());
  return {.weights = units::Bytes(settings.zero == 3 ? all / real(layout.ranks()) : all),
          .weight_buffers = units::Bytes(2 * bytes * real(largest_layer(model))),
          .gathered = units::Bytes(gathered_bytes(model, layout, settings)),
          .gradients = units::Bytes(mine),
          .gradient_buffers = units::Bytes(2 * bytes * real(largest_trained_layer(model))),
          .others_gradients = units::Bytes(settings.zero == 1 ? trained - mine : 0),
          .reduced = units::Bytes(reduced_bytes(model, layout, settings)),
          .activations = units::Bytes(activation_bytes(model, settings, layout.tokens)),
          .logits = units::Bytes(logits_bytes(model, settings, layout.tokens, {.on_gpus = true})),
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

namespace {

/// Of a node's ranks: those that live there, and those that are on their way through. What GPUs
/// keep comes through slots, to be loaded and saved.
units::Bytes states_on_host(const Deployment& layout, const PlanSettings& settings,
                            const sched::Problem& problem, const sched::Plan& plan) {
  const units::Bytes all = problem.total() * problem.cost.away();
  const double elsewhere =
      plan.share(problem, [](const sched::Assignment& each) { return each.home != sched::kHost; });
  units::Bytes held;
  if (problem.slots) {
    held = all * (1 - elsewhere) + *problem.slots;
  } else if (sched::lives_behind_host(problem, plan)) {
    held = sched::replay(problem, plan).host_peak;
  } else {
    const units::Params slots(elsewhere > 0 && !settings.policy.published
                                  ? real(shape::kSlotsUnderWay * problem.largest())
                                  : 0);
    held = std::min(all, all * (1 - elsewhere) + slots * problem.cost.away());
  }
  return (problem.total() * problem.cost.stays + held) * real(layout.ranks_per_node);
}

}  // namespace

MemoryUse host_use(const shape::Model& model, const Deployment& layout,
                   const PlanSettings& settings, const sched::Problem& problem,
                   const sched::Plan& plan, units::Bytes available) {
  const units::Params mine = problem.total() * real(layout.ranks_per_node);
  // The published code has FP32 gradients on the host, and of what the CPU updates alone.
  const bool published = settings.policy.published;
  const double on_host = published ? plan.share(problem, &sched::is_on_cpu) : 1;
  const double gradient = published ? kFp32 : value_bytes(settings);
  const units::BytesPerParam gradients(adds_on_host(layout, settings) ? kSumBytes
                                                                      : on_host * gradient);
  const units::BytesPerParam weight(settings.fp32 ? 0 : 2);
  MemoryUse use{.items = {{MemoryCategory::kStatesWithParameters,
                           states_on_host(layout, settings, problem, plan)},
                          {MemoryCategory::kGradients, mine * gradients},
                          {MemoryCategory::kWorking, mine * on_host * weight}},
                .available = available};
  if (!published || problem.gpus() == 0) add_of_others(model, layout, settings, problem, use);
  const double frozen = frozen_bytes(model, layout, settings);
  if (frozen > 0) use.items.push_back({MemoryCategory::kFrozen, units::Bytes(frozen)});
  const units::Bytes hosted = passing_activations(model, layout, settings);
  if (problem.gpus() > 0 && hosted > units::Bytes{0})
    use.items.push_back({MemoryCategory::kActivations, hosted});
  if (problem.gpus() == 0) add_activations(model, layout, settings, problem.rates.cpu_workers, use);
  if (!published) {
    const Index workers = problem.rates.cpu_workers + problem.gpus();
    const double ranks = real(layout.ranks_per_node);
    use.items.push_back(
        {MemoryCategory::kProgram, units::Bytes(ranks * real(program_bytes(workers)))});
    use.items.push_back(
        {MemoryCategory::kCheckpoints, checkpoint_buffers(settings, problem) * ranks});
    const units::Bytes of_rank = use.total() / ranks;
    use.items.push_back({MemoryCategory::kRuntime,
                         runtime_bytes(model, layout, settings, problem, of_rank) * ranks});
  }
  return use;
}

units::Bytes host_memory_for_states(const shape::Model& model, const Deployment& layout,
                                    const PlanSettings& settings, const sched::Problem& problem,
                                    units::Bytes available) {
  // Updates of the CPU need most beside their states.
  const MemoryUse all =
      host_use(model, layout, settings, problem, sched::all_cpu(problem), available);
  const units::Bytes beside = all.total() - all.of(MemoryCategory::kStatesWithParameters);
  const units::Bytes stays = problem.total() * problem.cost.stays;
  return std::max(units::Bytes{0}, (available - beside) / real(layout.ranks_per_node) - stays);
}

}  // namespace dos::planner
