// SPDX-License-Identifier: Apache-2.0
#include "simulated/step_request.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <sstream>
#include <system_error>
#include <utility>

#include "base/error.hpp"
#include "planner/home_choice.hpp"
#include "planner/whole_step.hpp"
#include "sched/gradients.hpp"

namespace dos::bench {
namespace {

/// Of a disk that --disk describes.
constexpr units::Bytes kDiskCapacity = units::gigabytes(8000);
constexpr units::Seconds kDiskLatency{100e-6};

/// Of a node, as --disk says it.
perfmodels::Tier disk_of(const std::string& text, std::size_t number) {
  std::vector<double> rates;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ':');) {
    double& rate = rates.emplace_back();
    const auto [rest, error] = std::from_chars(part.data(), part.data() + part.size(), rate);
    expect(error == std::errc{} && rest == part.data() + part.size() && std::isfinite(rate) &&
               rate > 0,
           "--disk {}: \"{}\" is no positive number of GB/s", text, part);
  }
  expect(rates.size() == 2 || rates.size() == 3, "--disk {}: give READ:WRITE or READ:WRITE:BOTH",
         text);
  const auto rate_of = [&](std::size_t i) {
    return units::gigabytes(rates[i]) / units::Seconds(1);
  };
  perfmodels::Tier tier;
  tier.name = fmt::format("disk{}", number);
  tier.capacity.value = kDiskCapacity;
  tier.read.value = rate_of(0);
  tier.write.value = rate_of(1);
  tier.latency.value = kDiskLatency;
  if (rates.size() == 3) tier.both.emplace().value = rate_of(2);
  return tier;
}

planner::Request planned(const StepRequest& request, const std::filesystem::path& machines) {
  planner::Request plan{
      .machine = perfmodels::find_machine(request.machine, machines),
      .model = shape::model_of(request.model,
                               shape::find_preset(request.model, "--model", shape::preset_names())),
      .ranks = request.ranks,
      .micro_batch = request.micro_batch,
      .policy = request.policy,
      .settings = request.settings};
  for (std::size_t i = 0; i < request.disks.size(); ++i)
    plan.machine.tiers.push_back(disk_of(request.disks[i], i));
  const Index gpus = plan.machine.gpus.value;
  expect(gpus > 0, "--machine {}: has no GPU to simulate: choose another", request.machine);
  if (plan.ranks == 0) plan.ranks = gpus;
  expect(plan.ranks >= gpus, "--ranks {}: a rank is simulated with one GPU, {} has {}: give {}",
         plan.ranks, request.machine, gpus, gpus);
  return plan;
}

Index whole(units::Bytes bytes) {
  return static_cast<Index>(bytes.value());
}

planner::MemoryUse memory_of(const planner::Request& plan, const planner::Deployment& layout,
                             Index more_layers) {
  shape::Model model = plan.model;
  model.config.layers += more_layers;
  return planner::gpu_peak(model, layout, plan.settings, plan.machine.gpu_memory.value);
}

std::vector<DepthTask> depths_of(const planner::Request& plan, const planner::PhaseTimes& phases,
                                 Index kept) {
  std::vector<DepthTask> depths;
  for (const sched::DepthPasses& each : planner::depth_passes(plan.model, phases)) {
    const auto depth = std::ssize(depths);
    const bool is_layer = depth >= 1 && depth <= plan.model.config.layers;
    depths.push_back({.forward = each.forward.value(),
                      .backward = each.backward.value(),
                      .activations = is_layer ? kept : 0});
  }
  return depths;
}

/// What StarPU may use of the GPU.
units::Bytes limit_of(const StepRequest& request, const planner::MemoryUse& memory) {
  const units::Bytes reserve = memory.of(MemoryCategory::kReserve);
  const units::Bytes most = memory.available - reserve;
  if (!request.state_memory) return most;
  const units::Bytes model = memory.total() - reserve;
  return std::min(most,
                  (model + units::gigabytes(*request.state_memory)) / (1 - sched::kMemoryReserve));
}

/// `states`: what the GPU has for states where all gradients have left it. These are counted as
/// they leave, whenever that is.
sched::Bound bound_of(sched::Problem problem, const perfmodels::Rates& rates, units::Seconds passes,
                      units::Bytes states) {
  problem.rates = rates;
  problem.memory = {{.update = states, .resident = states}};
  return planner::step_bound(std::move(problem), passes);
}

/// What the planner says of the step with the rates that are simulated.
units::Seconds planned_step(const planner::Request& request, sched::Problem problem,
                            const planner::PhaseTimes& phases, const SimulatedStep& step) {
  problem.rates = step.node.rates;
  problem.cost.banks = step.task.goes_ahead ? 2 : 1;
  const std::vector<sched::DepthPasses> depths = planner::depth_passes(request.model, phases);
  problem.forward.clear();
  if (!step.task.goes_ahead && !step.task.is_unclipped)
    problem.forward = planner::forward_beside(problem, depths);
  sched::PolicyOptions options = request.settings.policy;
  options.residents = options.residents && !problem.has_kept();
  const sched::Plan plan = sched::plan_beside_gradients(request.policy, problem, options);
  if (!planner::runs_beside(problem, plan))
    return phases.forward + phases.backward + plan.time + plan.refetch;
  std::vector<bool> ahead;
  if (step.task.is_unclipped) ahead = planner::without_norm(problem, plan);
  for (std::size_t i = 0; step.task.goes_ahead && i < problem.subgroups.size(); ++i)
    ahead.push_back(!step.task.are_away(i));
  return planner::step_beside(sched::settled(problem, plan), plan, {depths, ahead},
                              step.bound.time);
}

/// What the runtime finds of a GPU with less memory than it has.
sched::StateMemory limited_memory(planner::MemoryUse use, units::Bytes limit,
                                  bool releases_activations) {
  use.available = limit * (1 - sched::kMemoryReserve) + use.of(MemoryCategory::kReserve);
  const units::Bytes gradients = use.of(MemoryCategory::kGradients);
  for (planner::MemoryItem& item : use.items)
    if (item.category == MemoryCategory::kGradients) item.bytes = units::Bytes(0);
  sched::StateMemory memory = planner::state_memory(use);
  memory.gradients = gradients;
  if (!releases_activations) memory.update = memory.resident;
  return memory;
}

/// Where states live, as in a training. `room`: of the GPU for states.
void choose_homes(sched::Problem problem, units::Bytes room, bool may_stay, SimulatedStep& step) {
  if (step.task.goes_ahead) problem.cost.banks = 2;
  const units::Bytes all = problem.total() * problem.cost.state;
  step.in_host = all;
  if (problem.rates.tiers.empty()) return;
  const std::vector<units::Bytes> gpus(may_stay ? 1 : 0, room);
  const shape::HomeSplit split =
      planner::split_states(problem, problem.host_memory, gpus, std::ssize(problem.rates.tiers));
  if (split.are_in_host_memory()) return;
  for (const perfmodels::TierRates& tier : problem.rates.tiers) {
    const perfmodels::LinkRates& link = tier.link;
    step.task.disks.push_back({.read = link.out.value(),
                               .write = link.in.value(),
                               .both = link.half_duplex ? 0 : link.both.value(),
                               .latency = link.latency.value(),
                               .capacity = tier.capacity.value()});
  }
  step.task.slots = split.slots;
  step.task.on_disk = split.on_disk;
  for (const std::size_t i : split.on_disk)
    step.on_disk += problem.state_bytes(static_cast<Index>(i));
  for (std::size_t i = 0; i < split.device.size(); ++i) {
    if (split.device[i] < 0) continue;
    step.task.on_gpu.push_back(i);
    step.on_gpu += problem.state_bytes(static_cast<Index>(i));
  }
  step.in_host = all - step.on_gpu - step.on_disk;
}

}  // namespace

SimulatedStep prepare(const StepRequest& request, const std::filesystem::path& machines) {
  expect(request.steps >= 1, "--steps {}: must be at least 1", request.steps);
  expect(request.clipped_every >= 0, "--clipped-every {}: must be at least 0",
         request.clipped_every);
  expect(request.clipped_every == 0 || request.goes_ahead,
         "--clipped-every {}: only what goes ahead is made again: add --ahead",
         request.clipped_every);
  expect(!request.is_unclipped || !request.goes_ahead,
         "--unclipped: no update waits for the norm then: leave --ahead out");
  expect(
      !request.state_memory || (std::isfinite(*request.state_memory) && *request.state_memory > 0),
      "--state-memory {:g}: must be a positive number of GB", request.state_memory.value_or(0));
  expect(!request.trace.empty(), "--trace: name a folder for the trace");
  const planner::Request plan = planned(request, machines);
  expect(plan.settings.rule_states == perfmodels::kAdamwStates && !plan.settings.fp32,
         "--set: the simulated step is AdamW's with BF16 gradients and parameters: leave "
         "optim.rule and train.precision out");
  const planner::Forecast forecast = planner::forecast(plan);
  expect(forecast.gpu.fits(),
         "--micro-batch {} of {} needs {:.4g} GB of a GPU, {} has {:.4g}: use a smaller one, or "
         "more --ranks",
         plan.micro_batch, plan.model.name, forecast.gpu.total().value() / 1e9, plan.machine.name,
         plan.machine.gpu_memory.value.value() / 1e9);
  const planner::MemoryUse memory = memory_of(plan, forecast.layout, 0);
  const units::Bytes activations = memory.of(MemoryCategory::kActivations);
  // What another layer would add is what each of them keeps; the rest is in use one layer at a
  // time.
  const units::Bytes kept =
      memory_of(plan, forecast.layout, 1).of(MemoryCategory::kActivations) - activations;
  // One block in full, and its gradients, which come with backward.
  const units::Bytes block =
      (activations - kept * static_cast<double>(plan.model.config.layers)) / 2;
  const units::Bytes in_backward =
      block + memory.of(MemoryCategory::kLogits) + memory.of(MemoryCategory::kReduced);
  const units::Bytes limit = limit_of(request, memory);
  const units::Bytes states =
      limit * (1 - sched::kMemoryReserve) - (memory.total() - memory.of(MemoryCategory::kReserve));
  const units::Bytes emptied =
      std::max(units::Bytes(0), states + memory.of(MemoryCategory::kGradients));
  const units::Bytes update =
      units::Params(static_cast<double>(forecast.problem.largest())) * forecast.problem.cost.held();
  const planner::PhaseTimes phases =
      planner::phase_times(plan.model, plan.machine, forecast.layout, plan.settings,
                           /*flushed=*/units::Params(0), forecast.plan.time);
  const perfmodels::Rates rates =
      perfmodels::simulated_rates(forecast.problem.rates, perfmodels::Links::kAlone);
  SimulatedStep step{
      .node = {.machine = plan.machine.name, .rates = rates, .gpu_memory = limit},
      .task = {.machine = plan.machine.name,
               .model = fmt::format("{}, {} ranks, micro-batch {}", plan.model.name, plan.ranks,
                                    plan.micro_batch),
               .policy = plan.policy,
               .options = plan.settings.policy,
               .subgroups = forecast.problem.subgroups,
               .depths = depths_of(plan, phases, whole(kept)),
               .forward_workspace = whole(block + memory.of(MemoryCategory::kGathered)),
               .backward_workspace = whole(in_backward),
               .goes_ahead = request.goes_ahead,
               .is_unclipped = request.is_unclipped,
               .clipped_every = request.clipped_every,
               .releases_activations =
                   planner::needs_dead_activations({.update = states, .resident = states}, update),
               .cpu_workers = rates.cpu_workers,
               .cpu_rate = rates.cpu_worker.value(),
               .gpu_rate = rates.gpus.front().update.value(),
               .steps = request.steps,
               .trace = std::filesystem::absolute(request.trace).string()},
      .subgroup_params = forecast.problem.largest(),
      .phases = phases,
      .bound = bound_of(forecast.problem, rates, phases.forward + phases.backward, emptied)};
  choose_homes(forecast.problem, states, plan.settings.policy.residents, step);
  sched::Problem problem = forecast.problem;
  if (request.state_memory)
    problem.memory = {limited_memory(memory, limit, step.task.releases_activations)};
  step.planned = planned_step(plan, std::move(problem), phases, step);
  return step;
}

}  // namespace dos::bench
