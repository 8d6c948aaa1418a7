// SPDX-License-Identifier: Apache-2.0
#include "train/run.hpp"

#include "optim/rules.hpp"
#include "shape/cutter.hpp"
#include "shape/family_shape.hpp"
#include "shape/trained_groups.hpp"

namespace dos::train {

Run Run::with(const config::TrainConfig& other) const {
  Run run = *this;
  run.config = other;
  return run;
}

Run Run::with(const ranks::RankShare& other) const {
  Run run = *this;
  run.share = other;
  return run;
}

Run make_run(const config::TrainConfig& config, const shape::ModelConfig& model) {
  std::vector<shape::ParameterSpec> parameters =
      shape::find_family(model.architecture).parameters(model);
  shape::mark_trained(config.trained_groups(), parameters);
  return {.config = config,
          .model = model,
          .layout = shape::cut_into_subgroups(parameters, config.sched.subgroup_params,
                                              config.decay_groups())};
}

offload::HomePlan plan_homes(const Run& run, Index workers) {
  if (run.config.disks().empty()) return {};
  const tensor::Ownership ownership = run.share.ownership();
  return offload::plan_homes(
      {.layout = run.layout,
       .ownership = ownership,
       .states = std::ssize(optim::find_rule(run.config.optim.rule).info->states),
       .with_parameters = run.config.parameter_types().working != DType::kF32,
       .workers = workers,
       .host_memory = static_cast<Index>(1e9 * run.config.sched.host_memory)});
}

}  // namespace dos::train
