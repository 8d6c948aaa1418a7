// SPDX-License-Identifier: Apache-2.0
#include "train/plan_model.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/nearest.hpp"
#include "models/registry.hpp"
#include "train/config_file.hpp"

namespace dos::train {

planner::ModelShape planned_shape(const std::string& name, const models::ModelConfig& config) {
  planner::ModelShape shape{.name = name,
                            .layers = config.layers,
                            .width = config.width,
                            .ffn = 4 * config.width,
                            .heads = config.heads,
                            .kv_heads = config.heads,
                            .context = config.context,
                            .vocabulary = config.vocabulary,
                            .gated = false,
                            .tensors = {}};
  const auto& architecture = models::find_architecture(config.architecture);
  for (const tensor::ParameterSpec& spec : architecture.parameters(config))
    shape.tensors.push_back({spec.count(), spec.depth});
  return shape;
}

std::vector<std::string> planned_model_names() {
  std::vector<std::string> names = models::preset_names();
  for (std::string& name : planner::llama_names()) names.push_back(std::move(name));
  return names;
}

void take_configuration(const std::string& file, planner::Request& request) {
  TrainConfig config;
  read_config_file(file, config);
  // A plan reads no data.
  if (config.data.path.empty()) config.data.path = "none";
  try {
    config.validate();
    request.model = planned_shape(file, config.resolve_model(0));
  } catch (const Error& error) {
    fail("{}: {}", file, error.what());
  }
  planner::Settings& settings = request.settings;
  settings.subgroup_params = config.sched.subgroup_params;
  settings.policy = config.scheduling(/*ranks=*/1).options;
  settings.zero = config.dist.zero;
  settings.recompute = config.train.recompute;
  settings.fp32 = config.train.precision == "fp32";
  request.micro_batch = config.train.batch;
}

planner::ModelShape find_planned_model(const std::string& name) {
  if (auto llama = planner::find_llama(name)) return *llama;
  const std::vector<std::string> presets = models::preset_names();
  if (std::find(presets.begin(), presets.end(), name) != presets.end())
    return planned_shape(name, models::find_preset(name));
  const std::vector<std::string> names = planned_model_names();
  fail("unknown model '{}'{}; known: {}, or a configuration file of train_gpt (.toml)", name,
       did_you_mean(name, names), fmt::join(names, ", "));
}

}  // namespace dos::train
