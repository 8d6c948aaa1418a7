// SPDX-License-Identifier: Apache-2.0
#include "config/plan_model.hpp"

#include <string_view>
#include <type_traits>
#include <variant>

#include "base/error.hpp"
#include "config/config_file.hpp"
#include "config/options.hpp"
#include "hf/config_json.hpp"

namespace dos::config {
void take_keys(Keys keys, planner::PlanSettings& settings) {
  const auto take = [&]<class Set, class T>(const Option& option, Set set, const T* value) {
    using Argument = std::conditional_t<std::is_same_v<T, std::string>, const std::string&, T>;
    if constexpr (std::is_same_v<Set, void (*)(planner::PlanSettings&, Argument)>) {
      if constexpr (std::is_same_v<T, Index> || std::is_same_v<T, double>)
        if (option.plan.unsaid == static_cast<double>(*value)) return;
      set(settings, *value);
    } else {
      require(false, "a key's value and what plan takes of it have one type");
    }
  };
  // Of two keys that say one thing the one that was said.
  const auto is_other_name = [&](const Option& option) {
    return keys.train.recompute && option.name == std::string_view("train.activations");
  };
  for (const Option& option : kOptions)
    if (option.is_for_training() && option.is_for_plan() && !is_other_name(option))
      std::visit([&](auto set, auto* value) { take(option, set, value); }, option.plan.set,
                 option.value(keys));
}

void take_configuration(const std::string& file, planner::Request& request) {
  TrainConfig config;
  read_config_file(file, config);
  // A plan reads no data.
  if (config.data.path.empty() && config.data.sources.empty()) config.data.path = "none";
  try {
    config.validate();
    request.model = shape::model_of(file, config.resolve_model(0));
  } catch (const Error& error) {
    fail("{}: {}", file, error.what());
  }
  take_keys(config, request.settings);
  request.micro_batch = config.train.batch;
}

void adapt_model(planner::Request& request) {
  shape::ModelConfig config = request.model.config;
  take_adapters(request.settings.lora, config);
  if (config != request.model.config) request.model = shape::model_of(request.model.name, config);
}

shape::Model find_planned_model(const std::string& name) {
  constexpr std::string_view kFolder = "hf:";
  if (name.starts_with(kFolder))
    return shape::model_of(name, hf::read_config(name.substr(kFolder.size())));
  return shape::model_of(name, shape::find_preset(name, "model", shape::preset_names(),
                                                  ", a configuration file of train_gpt (.toml), or "
                                                  "hf:DIR for the model of a folder"));
}

}  // namespace dos::config
