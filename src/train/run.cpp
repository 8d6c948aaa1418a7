// SPDX-License-Identifier: Apache-2.0
#include "train/run.hpp"

#include <set>

#include "optim/rules.hpp"
#include "shape/cutter.hpp"
#include "shape/family_shape.hpp"
#include "shape/second_banks.hpp"
#include "shape/state_regions.hpp"
#include "shape/trained_groups.hpp"

namespace dos::train {
namespace {

Index state_count(const Run& run) {
  return optim::states_of_rule(run.config.optim.rule);
}

/// Whether states have FP32 parameters with them, where forward reads others.
bool keeps_parameters(const Run& run) {
  return run.config.parameter_types().working != DType::kF32;
}

}  // namespace

Run Run::with(const config::TrainConfig& other) const {
  Run run = *this;
  run.config = other;
  return run;
}

Run Run::with(const ranks::RankShare& other) const {
  Run run = *this;
  run.share = other;
  run.ahead.clear();
  return run;
}

std::vector<offload::DiskPlace> Run::disks() const {
  std::vector<offload::DiskPlace> disks = config.disks();
  for (std::size_t i = 0; i < disk_free.size(); ++i) disks.at(i).free = disk_free[i];
  return disks;
}

Run make_run(const config::TrainConfig& config, const shape::ModelConfig& model) {
  std::vector<shape::ParameterSpec> parameters =
      shape::find_family(model.architecture).parameters(model);
  shape::mark_trained(config.trained_groups(), parameters);
  const double states = config.sched.host_memory;
  return {.config = config,
          .model = model,
          .layout = shape::cut_into_subgroups(parameters, config.sched.subgroup_params,
                                              config.decay_groups()),
          .state_memory = states == config::kAuto ? 0 : static_cast<Index>(1e9 * states)};
}

std::vector<Index> candidates_to_go_ahead(const Run& run, Index workers) {
  const config::TrainConfig& config = run.config;
  if (config.optim.clip == 0 || config.parameter_types().working == DType::kF32) return {};
  const tensor::Ownership ownership = run.share.ownership();
  const offload::HomePlan homes = plan_homes(run, workers);
  std::set<Index> away;
  for (const offload::HomePlan::Away& each : homes.away) away.insert(each.subgroup);
  std::vector<Index> candidates;
  std::vector<Index> depths;
  const auto& subgroups = run.layout.subgroups;
  for (Index i = 0; i < std::ssize(subgroups); ++i) {
    const shape::Subgroup& subgroup = subgroups[static_cast<std::size_t>(i)];
    if (!subgroup.trained || subgroup.count == 0 || !ownership.owns(i) || away.contains(i))
      continue;
    candidates.push_back(i);
    depths.push_back(subgroup.depth);
  }
  std::vector<Index> ordered;
  for (const std::size_t place : shape::by_completion(depths)) ordered.push_back(candidates[place]);
  return ordered;
}

rt::MemoryBytes bank_bytes(const Run& run, std::span<const Index> ahead) {
  Index buffer = 0;
  for (const Index i : ahead)
    buffer += run.layout.subgroups[static_cast<std::size_t>(i)].count * size_of(DType::kF32);
  rt::MemoryBytes bytes;
  bytes[MemoryCategory::kParameters] = buffer;
  bytes[MemoryCategory::kStates] = buffer * state_count(run);
  return bytes;
}

offload::HomePlan plan_homes(const Run& run, Index workers) {
  if (run.config.disks().empty() && run.device_state_memory.empty()) return {};
  const tensor::Ownership ownership = run.share.ownership();
  return offload::plan_homes({.layout = run.layout,
                              .ownership = ownership,
                              .states = state_count(run),
                              .with_parameters = keeps_parameters(run),
                              .workers = workers,
                              .rooms = {.host = run.state_memory,
                                        .devices = run.device_state_memory,
                                        .disks = std::ssize(run.config.disks())}});
}

Index most_state_files(const Run& run) {
  const tensor::Ownership ownership = run.share.ownership();
  const Index buffers = state_count(run) + (keeps_parameters(run) ? 1 : 0);
  std::vector<Index> sizes;
  for (Index i = 0; i < std::ssize(run.layout.subgroups); ++i) {
    const shape::Subgroup& subgroup = run.layout.subgroups[static_cast<std::size_t>(i)];
    if (subgroup.trained && subgroup.count > 0 && ownership.owns(i))
      sizes.push_back(buffers * offload::padded_bytes(subgroup));
  }
  if (sizes.empty()) return 0;
  return shape::regions_for(sizes, std::ssize(sizes), std::ssize(run.config.disks())).total_bytes();
}

}  // namespace dos::train
