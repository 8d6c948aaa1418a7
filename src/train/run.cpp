// SPDX-License-Identifier: Apache-2.0
#include "train/run.hpp"

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

}  // namespace dos::train
