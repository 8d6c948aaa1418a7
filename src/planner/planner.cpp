// SPDX-License-Identifier: Apache-2.0
#include "planner/planner.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "planner/activation_choice.hpp"
#include "planner/activation_proposals.hpp"
#include "planner/home_choice.hpp"
#include "planner/run_disks.hpp"
#include "planner/subgroups.hpp"
#include "planner/tier_uses.hpp"
#include "planner/whole_step.hpp"
#include "sched/given_options.hpp"
#include "sched/gradients.hpp"
#include "sched/policy_registry.hpp"
#include "shape/cutter.hpp"

namespace dos::planner {
namespace {

/// Ranks, and sequences of one: more are slips of the hand, whose products might overflow.
constexpr Index kMost = 1'000'000;

Deployment layout_of(const Request& request) {
  const Index gpus = request.machine.gpus.value;
  const Index ranks = request.ranks;
  expect(ranks >= 1 && ranks <= kMost, "--ranks {}: must be 1 to {}", ranks, kMost);
  expect(request.micro_batch >= 1 && request.micro_batch <= kMost,
         "--micro-batch {}: must be 1 to {}", request.micro_batch, kMost);
  const Index wanted = request.ranks_per_node;
  expect(wanted >= 0, "--ranks-per-node {} must be at least 1", wanted);
  Deployment layout;
  layout.ranks_per_node = wanted > 0 ? wanted : gpus == 0 ? ranks : std::min(ranks, gpus);
  expect(wanted == 0 || ranks % wanted == 0,
         "--ranks {} leaves a node partly filled: use a multiple of --ranks-per-node {}", ranks,
         wanted);
  expect(ranks % layout.ranks_per_node == 0,
         "--ranks {} leaves a node of {} partly filled: use a multiple of its {} GPUs", ranks,
         request.machine.name, gpus);
  expect(wanted == 0 || gpus % wanted == 0,
         "--ranks-per-node {} does not divide the {} GPUs of {}: use a divisor", wanted, gpus,
         request.machine.name);
  expect(gpus % layout.ranks_per_node == 0,
         "--ranks {} does not divide the {} GPUs of {}: use a divisor, or a multiple", ranks, gpus,
         request.machine.name);
  layout.devices_per_rank = std::max<Index>(1, gpus / layout.ranks_per_node);
  layout.devices = ranks * layout.devices_per_rank;
  layout.tokens = static_cast<double>(request.micro_batch) *
                  static_cast<double>(request.model.config.context) /
                  static_cast<double>(layout.devices_per_rank);
  return layout;
}

sched::UpdateCost update_cost(const Deployment& layout, const PlanSettings& settings, bool gpu) {
  const bool sums_on_host = gpu && adds_on_host(layout, settings);
  const double value = settings.fp32 ? 4 : 2;
  const bool flushes = gpu && settings.flush_in_update && !sums_on_host;
  const bool reads_state = settings.fp32 && !settings.policy.published;
  return {.state = perfmodels::state_bytes(settings.rule_states),
          .stays = units::BytesPerParam(reads_state ? value : 0),
          .weight = units::BytesPerParam(gpu ? value : 0),
          .gradient = units::BytesPerParam(flushes ? value : 0),
          .host_gradient = units::BytesPerParam(sums_on_host ? kSumBytes : 0),
          // Also in FP32, and in the published code: 4 bytes of gradient are read, no w is written.
          .cpu_traffic = perfmodels::update_traffic(settings.rule_states) +
                         units::BytesPerParam(sums_on_host ? kSumBytes - value : 0)};
}

/// What states may use of a GPU, and gradients with them, with updates of `update` bytes. The
/// published code's allocator gives the memory of dead activations to anything, and its gradients
/// leave in the update.
sched::StateMemory memory_of_states(const Request& request, const Deployment& layout,
                                    units::Bytes update) {
  const PlanSettings& settings = request.settings;
  const auto peak = [&](const Staying& staying) {
    return gpu_peak(request.model, layout, settings, request.machine.gpu_memory.value, staying);
  };
  const MemoryUse all = peak({});
  if (settings.flush_in_update) return state_memory(all);
  const MemoryUse least = peak({.gradients = 0});
  sched::StateMemory memory = state_memory(least);
  memory.gradients = all.of(MemoryCategory::kGradients) - least.of(MemoryCategory::kGradients);
  if (!settings.policy.published) {
    const MemoryUse buffers = peak({.gradients = 0, .weights = 0});
    const sched::StateMemory without = state_memory(buffers);
    memory.passing = {
        .bytes = least.of(MemoryCategory::kWeights) - buffers.of(MemoryCategory::kWeights),
        .update = without.update,
        .resident = without.resident};
  }
  if (!settings.policy.published && !needs_dead_activations(state_memory(all), update))
    memory.update = memory.resident;
  return memory;
}

/// States of the GPU that holds most: with residents on one and a longer window on another no GPU
/// holds the most of both.
void add_planned_states(const sched::Problem& problem, const sched::Plan& plan, MemoryUse& use) {
  std::vector<units::Bytes> resident(problem.rates.gpus.size());
  for (std::size_t i = 0; i < plan.assignments.size(); ++i) {
    const sched::Assignment& each = plan.assignments[i];
    if (sched::is_resident(each))
      resident[static_cast<std::size_t>(each.home)] += problem.held_bytes(static_cast<Index>(i));
  }
  const sched::StateMemory& memory = problem.memory.front();
  const units::Bytes dead = memory.update - memory.resident;
  std::vector<MemoryUse> uses(resident.size(), use);
  for (std::size_t gpu = 0; gpu < uses.size(); ++gpu)
    add_states(resident[gpu], plan.window_memory[gpu], dead, uses[gpu]);
  use = *std::ranges::max_element(uses, {}, &MemoryUse::total);
}

/// Parameters whose gradients a rank's GPUs send to host memory during backward.
units::Params leave_in_backward(const Request& request, const Forecast& result) {
  if (adds_on_host(result.layout, request.settings))
    return units::Params(static_cast<double>(request.model.trained_params()));
  if (request.settings.flush_in_update) return units::Params(0);
  return result.problem.total() * result.plan.share(result.problem, &sched::is_on_cpu);
}

/// Throws Error where there is no disk.
void put_on_disk(const Request& request, Forecast& result) {
  const shape::ActivationPlan& plan = request.settings.activations;
  if (plan.moved == 0) return;
  expect(!request.machine.tiers.empty(),
         "train.activations = {}: the machine file of {} has no disk: add a [[tier]] "
         "(docs/adding/machine.md), or move no activations there",
         shape::activation_plan_text(plan, request.model.config.layers), request.machine.name);
  result.activations_on_disk =
      moved_activations(request.model, result.layout, request.settings, shape::Refill::kDisk);
}

std::string limit_of(const Request& request, const Forecast& result) {
  if (!result.gpu.fits()) return "memory of a GPU";
  if (!result.host.fits()) return "host memory";
  if (!result.fits()) return result.full_disk;
  const PhaseTimes& phases = result.phases;
  const units::Seconds compute = phases.forward + phases.backward - phases.exposed - phases.moving;
  if (phases.moving >= std::max({compute, phases.exposed, result.plan.time}))
    return "moving activations";
  if (phases.exposed >= std::max(compute, result.plan.time))
    return wire_of(request.machine, result.layout, request.settings).slowest();
  if (result.plan.refetch >= std::max(compute, result.plan.time)) return "weights that pass";
  return compute >= result.plan.time ? "forward and backward"
                                     : "update: " + result.plan.bound.binding;
}

/// Whether GPUs keep for good what host memory has no room for, as a training has it.
bool may_keep(const Request& request) {
  const sched::PolicyOptions& options = request.settings.policy;
  return options.residents && !options.published && !options.share && !options.stride &&
         sched::find_policy(request.policy).uses_gpus;
}

/// By GPU, beside gradients that wait for the update.
std::vector<units::Bytes> free_for_states(const Request& request, const sched::Problem& problem) {
  std::vector<units::Bytes> free;
  const units::Bytes reserve = request.machine.gpu_memory.value * sched::kMemoryReserve;
  for (const sched::StateMemory& gpu : problem.memory)
    free.push_back(gpu.resident - gpu.gradients - reserve);
  return free;
}

/// `waiting`: the same step where no update goes ahead of the norm; null: this one.
Forecast forecast_beside(const Request& request, const Forecast* waiting) {
  const PlanSettings& settings = request.settings;
  Forecast result;
  result.layout = layout_of(request);
  const Deployment& layout = result.layout;
  sched::Problem& problem = result.problem;
  expect(!settings.policy.published || settings.rule_states == perfmodels::kAdamwStates,
         "sched.published=true: the published code updates with AdamW: leave optim.rule out");
  result.trained_params = request.model.trained_params();
  expect(!settings.policy.published || result.trained_params == request.model.params(),
         "sched.published=true: the published code trains every parameter: leave optim.freeze out");
  problem.rates = perfmodels::rates_of_rule(
      perfmodels::rates_of(request.machine, layout.ranks_per_node), settings.rule_states);
  problem.cost = update_cost(layout, settings, problem.gpus() > 0);
  problem.cost.banks = waiting != nullptr ? 2 : 1;
  const Index most = subgroup_params(request, problem.rates);
  problem.subgroups = settings.policy.published
                          ? cut_as_published(request.model, request.ranks, most)
                          : cut_for_rank(request.model, request.ranks, most);
  const units::Params largest(static_cast<double>(problem.largest()));
  if (problem.gpus() > 0)
    problem.memory.assign(problem.rates.gpus.size(),
                          memory_of_states(request, layout, largest * problem.cost.held()));
  sched::PolicyOptions options = settings.policy;
  // Without further tiers a plan that does not fit is shown as such.
  if (!problem.rates.tiers.empty()) {
    problem.host_memory = host_memory_for_states(request.model, layout, settings, problem,
                                                 request.machine.dram_capacity.value);
    if (!settings.policy.published)
      give_homes(
          settings,
          may_keep(request) ? free_for_states(request, problem) : std::vector<units::Bytes>(),
          problem);
    options.residents = options.residents && !problem.has_kept();
  }
  if (waiting == nullptr && settings.clips) problem.forward = forward_of(request, result);
  result.plan = sched::plan_beside_gradients(request.policy, problem, options);
  const sched::Problem roomy = problem;
  if (problem.gpus() > 0) {
    const double left = sched::waiting_gradients(problem, result.plan);
    problem = sched::settled(std::move(problem), result.plan);
    const GpuDemand demand = gpu_demand(request.model, layout, settings);
    result.gpu = gpu_use(demand, request.machine.gpu_memory.value, {.gradients = left});
    add_planned_states(problem, result.plan, result.gpu);
    if (result.plan.overflow > units::Bytes{0}) let_weights_pass(result.gpu, demand.weight_buffers);
  }
  result.host = host_use(request.model, layout, settings, problem, result.plan,
                         request.machine.dram_capacity.value);
  result.activations = settings.activations;
  result.flushed =
      leave_in_backward(request, result) / static_cast<double>(layout.devices_per_rank);
  result.phases = phase_times(request.model, request.machine, layout, settings, result.flushed,
                              result.plan.time, traffic_beside_activations(request, result));
  put_on_disk(request, result);
  hold_against_disks(request.machine, result);
  result.sent = sent_by_rank(request.model, request.ranks, settings);
  std::vector<bool> ahead;
  if (waiting != nullptr)
    ahead = let_go_ahead(request, *waiting, result);
  else if (!settings.clips)
    ahead = without_norm(problem, result.plan);
  play_step(request, roomy, std::move(ahead), result);
  result.limit = limit_of(request, result);
  return result;
}

Forecast forecast_of(const Request& request) {
  Forecast waiting = forecast_beside(request, nullptr);
  if (!may_go_ahead(request)) return waiting;
  Forecast ahead = forecast_beside(request, &waiting);
  if (ahead.ahead.subgroups == 0) return waiting;
  const bool gains = ahead.fits() && ahead.step < waiting.step;
  return gains || request.settings.speculation == SpeculationChoice::kOn ? ahead : waiting;
}

/// Of what lives behind host memory, the part that may be on its way through it: room for more is
/// room in which nothing stays.
constexpr double kOnTheWay = 0.03;
constexpr Index kMostFiner = 1024;
constexpr Index kSmallestOnDisk = 500'000;
/// How many times a tier's latency the reading of a subgroup should take.
constexpr double kLatencies = 40;

bool is_worth_latency(const sched::Problem& problem, units::Bytes subgroup) {
  return std::ranges::all_of(problem.rates.tiers, [&](const perfmodels::TierRates& tier) {
    return subgroup / tier.link.out >= tier.link.latency * kLatencies;
  });
}

/// Smaller subgroups where states live behind host memory: less of it is needed for what is on its
/// way, and more stays there. What all on the CPU comes to says how small.
Index finer_subgroups(const Request& request) {
  Request trial = request;
  trial.policy = "zero-offload";
  for (Index size = request.settings.subgroup_params;; size /= 2) {
    trial.settings.subgroup_params = size;
    const Forecast result = forecast_of(trial);
    const sched::Problem& problem = result.problem;
    if (!sched::lives_behind_host(problem, result.plan)) return size;
    const units::Params in_host =
        problem.total() * result.plan.share(problem, [](const sched::Assignment& each) {
          return each.home == sched::kHost;
        });
    const units::BytesPerParam away = problem.cost.away();
    const units::Bytes behind = (problem.total() - in_host) * away;
    const units::Bytes on_the_way = problem.slots.value_or(problem.host_memory - in_host * away);
    const units::Bytes half = units::Params(static_cast<double>(size) / 2) * away;
    if (on_the_way <= behind * kOnTheWay || size / 2 < kSmallestOnDisk ||
        std::ssize(problem.subgroups) >= kMostFiner || !is_worth_latency(problem, half))
      return size;
  }
}

/// Where nothing else is asked for.
void choose_subgroups(Request& request) {
  sched::PolicyOptions& options = request.settings.policy;
  if (request.settings.subgroup_params > 0 || options.published) return;
  const Deployment layout = layout_of(request);
  const perfmodels::Rates rates = perfmodels::rates_of_rule(
      perfmodels::rates_of(request.machine, layout.ranks_per_node), request.settings.rule_states);
  const Index size = subgroup_params(request, rates);
  request.settings.subgroup_params =
      rates.gpus.empty() ? size : fullest_subgroups(request.model, request.ranks, size);
  if (request.machine.tiers.empty()) return;
  try {
    request.settings.subgroup_params = finer_subgroups(request);
  } catch (const Error&) {
    // The CPU alone cannot have all states; what cannot be planned at all is said below.
  }
}

PassModel passes_of(const Request& request, const Forecast& result) {
  PassModel passes = pass_model(request.model, request.machine, result.layout, request.settings,
                                result.flushed, result.plan.time);
  passes.share_disks(traffic_beside_activations(request, result));
  return passes;
}

/// Of a request that has a forecast with other activations; nullopt: these leave states no place.
std::optional<Forecast> forecast_if_any(const Request& request) {
  try {
    return forecast_of(request);
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// The best of what is proposed; where nothing fits, all recomputed.
Forecast forecast_with_best_activations(Request request) {
  request.settings.activations = shape::kRecomputeAll;
  Forecast least = forecast_of(request);
  if (!least.fits()) return least;
  const PassModel passes = passes_of(request, least);
  const std::vector<shape::ActivationPlan> named = named_activations(request);
  std::vector<NamedActivations> compared;
  std::vector<Forecast> fitting;
  const auto weigh = [&](const shape::ActivationPlan& plan) -> std::optional<units::Seconds> {
    request.settings.activations = plan;
    std::optional<Forecast> result = forecast_if_any(request);
    const bool fits = result && result->fits();
    if (std::ranges::find(named, plan) != named.end())
      compared.push_back({plan, fits, result ? result->step : units::Seconds{0}});
    if (!fits) return std::nullopt;
    fitting.push_back(std::move(*result));
    return fitting.back().step;
  };
  const std::vector<ActivationChoice> choices =
      weighed_plans(named, activation_limits(request, least, passes), passes, weigh);
  Forecast best = std::move(fitting[preferred(passes, choices)]);
  best.named = std::move(compared);
  return best;
}

/// With the subgroups and activations that are left open. As in train_gpt, second banks take what
/// these leave, unless they are asked for: then activations leave them their room.
Forecast forecast_with_choices(Request& request) {
  const bool chooses = request.settings.chooses_activations;
  const SpeculationChoice asked =
      std::exchange(request.settings.speculation, SpeculationChoice::kOff);
  choose_subgroups(request);
  if (asked != SpeculationChoice::kAuto || !chooses) {
    request.settings.speculation = asked;
    return chooses ? forecast_with_best_activations(request) : forecast_of(request);
  }
  Forecast waiting = forecast_with_best_activations(request);
  request.settings.speculation = asked;
  request.settings.activations = waiting.activations;
  Forecast result = forecast_of(request);
  result.named = std::move(waiting.named);
  return result;
}

/// The machine has no more memory, and no other disks, than settings say.
void limit_machine(Request& request) {
  const units::Bytes none{0};
  const PlanSettings& settings = request.settings;
  perfmodels::Machine& machine = request.machine;
  if (settings.gpu_limit > none)
    machine.gpu_memory.value = std::min(machine.gpu_memory.value, settings.gpu_limit);
  const double ranks = static_cast<double>(layout_of(request).ranks_per_node);
  take_disks(settings, ranks, machine);
  if (settings.host_limit == none) return;
  machine.dram_capacity.value = std::min(machine.dram_capacity.value, settings.host_limit * ranks);
}

}  // namespace

Forecast forecast(const Request& given) {
  Request request = given;
  limit_machine(request);
  shape::mark_trained(request.settings.trained, request.model.parameters);
  if (request.settings.chooses_activations) request.settings.activations = shape::kRecomputeAll;
  Forecast result = forecast_with_choices(request);
  if (!request.settings.policy.published)
    result.activation_uses = activation_uses(passes_of(request, result), result.activations);
  result.machine = request.machine;
  // A model that does not fit is said so; dos drops plans whose window does not.
  const sched::PolicyOptions& options = request.settings.policy;
  if (result.gpu.fits() && sched::find_policy(request.policy).reads.window && !options.published)
    sched::expect_window_fits(result.problem, options, "sched.{} = {}");
  return result;
}

}  // namespace dos::planner
