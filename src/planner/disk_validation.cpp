// SPDX-License-Identifier: Apache-2.0
#include "planner/disk_validation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "sched/cut.hpp"

namespace dos::planner {
namespace {

/// [A] MLP-Offload, sample logs: 4 ranks, subgroups of 100 M parameters, micro-batch 1.
struct Published {
  const char* model;
  double params;      ///< real ones
  double infinity_s;  ///< DeepSpeed's swapping to NVMe
  double mlp_s;       ///< MLP-Offload
  bool fits_nvme;     ///< rates of machine file and memory were chosen with these rows in view
  bool fits_mlp;
};

constexpr std::array kPublished{Published{"40B", 48.2e9, 213.610, 98.507, true, true},
                                Published{"52B", 44.3e9, 209.336, 89.407, false, false},
                                Published{"70B", 68.6e9, 336.427, 147.184, false, false},
                                Published{"100B", 105.9e9, 501.916, 269.246, false, true}};

constexpr const char* kMachine = "h100-4x-nvme";
constexpr const char* kSource = "[A] MLP-Offload, sample logs";
constexpr Index kRanks = 4;
constexpr Index kSubgroup = 100'000'000;
/// Of the node: what 16-bit gradients, which stay in host memory, leave of it is for states.
/// Calibrated with MLP-Offload's row of 40B; the logs do not tell.
constexpr units::Bytes kGradientsAndStates = units::gigabytes(232);
constexpr units::BytesPerParam kGradient{2};
/// What is on its way needs some all the same: of a rank, subgroups.
constexpr double kLeastSubgroups = 6;

sched::Problem problem_of(const perfmodels::Machine& machine, const Published& row) {
  sched::Problem problem;
  problem.rates = perfmodels::rates_of(machine, kRanks);
  const auto params = static_cast<Index>(row.params) / kRanks;
  problem.subgroups = sched::cut_into(params, {.size = kSubgroup});
  problem.memory.assign(problem.rates.gpus.size(), sched::StateMemory{});
  const units::Bytes left = kGradientsAndStates - units::Params(row.params) * kGradient;
  const units::Bytes least =
      units::Params(static_cast<double>(kSubgroup)) * problem.cost.state * kLeastSubgroups;
  problem.host_memory = std::max(least, left / static_cast<double>(kRanks));
  return problem;
}

}  // namespace

std::vector<ValidationRow> validate_disks(const std::filesystem::path& machines) {
  const perfmodels::Machine machine = perfmodels::find_machine(kMachine, machines);
  std::vector<ValidationRow> rows;
  for (const Published& row : kPublished) {
    const sched::Problem problem = problem_of(machine, row);
    const auto add = [&](const char* policy, double seconds, bool is_calibrated) {
      rows.push_back({.machine = kMachine,
                      .model = row.model,
                      .mode = policy,
                      .source = kSource,
                      .calibrated = is_calibrated,
                      .measured = units::Seconds(seconds),
                      .predicted = sched::make_plan(policy, problem, {.published = true}).time});
    };
    add("zero-infinity", row.infinity_s, row.fits_nvme);
    add("mlp-offload", row.mlp_s, row.fits_mlp);
  }
  return rows;
}

std::string disk_table(const std::filesystem::path& machines) {
  std::string text = comparison_table(validate_disks(machines), "policy",
                                      {.name = "s", .seconds = 1, .decimals = 1}) +
                     "\n";
  const perfmodels::Machine machine = perfmodels::find_machine(kMachine, machines);
  text += "| model | dos, predicted s | its bound |\n|---|---:|---:|\n";
  for (const Published& row : kPublished) {
    const sched::Plan plan = sched::make_plan("dos", problem_of(machine, row));
    text += fmt::format("| {} | {:.1f} | {:.1f}, {} |\n", row.model, plan.time.value(),
                        plan.bound.time.value(), plan.bound.binding);
  }
  return text;
}

}  // namespace dos::planner
