// SPDX-License-Identifier: Apache-2.0
#include "simulated/simulation_request.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.hpp"
#include "sched/cut.hpp"
#include "sched/given_options.hpp"
#include "sched/policy_registry.hpp"

namespace dos::bench {
namespace {

constexpr double kGiga = 1e9;
/// Each has a result of its own; a day of steps of 0.1 s.
constexpr Index kMostSteps = 1'000'000;
/// Working parameters and gradients, 16 bits each, are on the GPUs, that run forward and backward.
constexpr units::BytesPerParam kModelOnGpu{4};
constexpr const char* kSpelling = "--{} {}";

double factor_of(std::string_view suffix) {
  if (suffix == "K") return 1e3;
  if (suffix == "M") return 1e6;
  if (suffix == "G") return 1e9;
  return suffix.empty() ? 1 : 0;
}

/// Ranks on the node when each has `gpus` GPUs; 0 when they cannot be dealt so.
Index ranks_for(const perfmodels::Machine& machine, Index gpus) {
  const Index all = machine.gpus.value;
  return all >= gpus && all % gpus == 0 ? all / gpus : 0;
}

sched::StateMemory memory_of(const Request& request, const perfmodels::Machine& machine,
                             units::Bytes model_on_gpu) {
  if (request.gpu_memory) {
    const units::Bytes given(*request.gpu_memory * kGiga);
    return {.update = given, .resident = given};
  }
  const units::Bytes room = machine.gpu_memory.value * (1 - sched::kMemoryReserve) - model_on_gpu;
  expect(room.value() > 0,
         "--params: 16-bit parameters and gradients take {:.4g} GB of each GPU, {} has {:.4g} GB: "
         "use fewer --params, more --gpus, or give --gpu-memory",
         model_on_gpu.value() / kGiga, machine.name, machine.gpu_memory.value.value() / kGiga);
  return {.update = room, .resident = room};
}

/// The most parameters of the model that a GPU has.
units::Params most_dealt(const sched::Problem& problem) {
  std::vector<Index> by_gpu(problem.memory.size(), 0);
  const std::vector<Index> users = deal(problem.subgroups, problem.gpus());
  for (std::size_t i = 0; i < users.size(); ++i)
    by_gpu[static_cast<std::size_t>(users[i])] += problem.subgroups[i].params;
  return units::Params(static_cast<double>(*std::ranges::max_element(by_gpu)));
}

void check(const Request& request) {
  expect(request.gpus >= 1, "--gpus {}: must be at least 1", request.gpus);
  expect(request.steps >= 1 && request.steps <= kMostSteps, "--steps {}: must be 1 to {}",
         request.steps, kMostSteps);
  expect(request.warm_ups >= 0 && request.warm_ups <= kMostSteps, "--warm-ups {}: must be 0 to {}",
         request.warm_ups, kMostSteps);
  expect(!request.gpu_memory || (std::isfinite(*request.gpu_memory) && *request.gpu_memory > 0),
         "--gpu-memory {:g}: must be a positive number of GB", request.gpu_memory.value_or(0));
  expect(!request.policy.empty(), "--policy '': name one, dos for example");
  for (const auto& [option, factor] :
       {std::pair{"--slow-gpu", request.slow.gpu}, std::pair{"--slow-worker", request.slow.worker}})
    expect(std::isfinite(factor) && factor >= 1, "{} {:g}: must be at least 1", option, factor);
  request.options.validate();
  sched::expect_read(request.policy, request.options, kSpelling);
}

void check_memory(const UpdatePhase& phase) {
  const sched::Policy* own = sched::own_policy(phase.policy);
  if (own == nullptr || !own->uses_gpus) return;
  const units::Bytes slot = phase.problem.held_bytes(0);
  const units::Bytes room = phase.problem.memory.front().update;
  expect(slot <= room,
         "--gpu-memory: {:.4g} GB a GPU for states, one subgroup of {} parameters needs {:.4g} GB: "
         "give more, a smaller --subgroup, or --policy zero-offload",
         room.value() / kGiga, phase.cut.size, slot.value() / kGiga);
  sched::expect_window_fits(phase.problem, phase.options, kSpelling);
}

}  // namespace

Index parse_params(const std::string& option, const std::string& text, Index least) {
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  const double factor = factor_of(std::string_view(stop, static_cast<std::size_t>(end - stop)));
  const double params = std::round(number * factor);
  // 2^53: whole numbers up to there are exact.
  expect(error == std::errc{} && factor > 0 && params >= static_cast<double>(least) &&
             params <= 9007199254740992.0 && std::abs(params - number * factor) < 1e-3,
         "{} {}: must be a whole number of parameters of at least {}, such as 16000000, 16M or "
         "5.12G",
         option, text, least);
  return static_cast<Index>(params);
}

perfmodels::Machine machine_of(const std::string& name, Index gpus,
                               const std::filesystem::path& folder, const perfmodels::Host& host) {
  std::vector<std::string> tried{name};
  if (!name.ends_with(".toml"))
    for (const std::string& known : perfmodels::machine_names(folder))
      if (known.starts_with(name + "-") && known.ends_with("x")) tried.push_back(known);
  const bool has_own = name.ends_with(".toml") || tried.size() == 1 ||
                       std::filesystem::exists(folder / (name + ".toml"));
  std::vector<std::string> offers;
  for (std::size_t i = has_own ? 0 : 1; i < tried.size(); ++i) {
    const perfmodels::Machine machine = perfmodels::find_machine(tried[i], folder, host);
    if (ranks_for(machine, gpus) > 0) return machine;
    expect(machine.gpus.value > 0,
           "--machine {}: no GPU in it, so every update is the CPU's (bench/update measures that): "
           "name a machine with GPUs, or calibrate this one with its devices",
           tried[i]);
    offers.push_back(fmt::format("{} has {}", machine.name, machine.gpus.value));
  }
  fail("--gpus {} on --machine {}: {}; give a divisor of that", gpus, name,
       fmt::join(offers, ", "));
}

UpdatePhase prepare(const Request& request, const std::filesystem::path& machines) {
  check(request);
  const Index params = parse_params("--params", request.params, 1);
  const Index subgroup = parse_params("--subgroup", request.subgroup, 0);
  const perfmodels::Machine machine =
      machine_of(request.machine, request.gpus, machines, request.host);
  UpdatePhase phase{.machine = machine.name,
                    .policy = request.policy,
                    .options = request.options,
                    .problem = {},
                    .cut = {.size = subgroup},
                    .steps = request.steps,
                    .warm_ups = request.warm_ups,
                    .slow = request.slow};
  sched::Problem& problem = phase.problem;
  problem.rates = perfmodels::rates_of(machine, ranks_for(machine, request.gpus));
  if (!request.here)
    problem.rates =
        perfmodels::simulated_rates(problem.rates, request.busy_links ? perfmodels::Links::kCpuBusy
                                                                      : perfmodels::Links::kAlone);
  problem.cost.gradient = units::BytesPerParam(2);
  problem.cost.state_buffers = 3;
  const units::Bytes model =
      units::Params(static_cast<double>(params)) * kModelOnGpu / static_cast<double>(request.gpus);
  problem.memory.assign(static_cast<std::size_t>(request.gpus), memory_of(request, machine, model));
  if (subgroup > 0) {
    sched::expect_few_subgroups({params}, subgroup, "--subgroup");
  } else {
    // StarPU's own policies have no planner: the sizes that suit dos.
    const std::string planner = sched::own_policy(phase.policy) != nullptr ? phase.policy : "dos";
    phase.cut = sched::choose_cut(planner, problem, params, phase.options);
  }
  problem.subgroups = sched::cut_into(params, phase.cut);
  phase.cut.size = problem.subgroups.front().params;
  const units::Bytes room = problem.memory.front().update + most_dealt(problem) * kModelOnGpu;
  phase.gpu_memory =
      request.gpu_memory ? room / (1 - sched::kMemoryReserve) : machine.gpu_memory.value;
  check_memory(phase);
  return phase;
}

}  // namespace dos::bench
