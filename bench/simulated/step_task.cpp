// SPDX-License-Identifier: Apache-2.0
#include "simulated/step_task.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "simulated/json_options.hpp"

namespace dos::bench {

using nlohmann::json;

std::string to_json(const StepTask& task) {
  json subgroups = json::array();
  for (const sched::Subgroup& each : task.subgroups) subgroups.push_back({each.params, each.depth});
  json depths = json::array();
  for (const DepthTask& each : task.depths)
    depths.push_back({each.forward, each.backward, each.activations});
  return json{{"machine", task.machine},
              {"model", task.model},
              {"policy", task.policy},
              {"options", options_json(task.options)},
              {"subgroups", subgroups},
              {"depths", depths},
              {"forward_workspace", task.forward_workspace},
              {"backward_workspace", task.backward_workspace},
              {"releases_activations", task.releases_activations},
              {"cpu_workers", task.cpu_workers},
              {"cpu_rate", task.cpu_rate},
              {"gpu_rate", task.gpu_rate},
              {"steps", task.steps},
              {"trace", task.trace}}
      .dump();
}

StepTask step_task_of(const std::string& text) {
  const json object = parse_json_object(text, "the simulated node", "see its log");
  StepTask task{.machine = object.at("machine"),
                .model = object.at("model"),
                .policy = object.at("policy"),
                .options = options_of(object.at("options")),
                .subgroups = {},
                .depths = {},
                .forward_workspace = object.at("forward_workspace"),
                .backward_workspace = object.at("backward_workspace"),
                .releases_activations = object.at("releases_activations"),
                .cpu_workers = object.at("cpu_workers"),
                .cpu_rate = object.at("cpu_rate"),
                .gpu_rate = object.at("gpu_rate"),
                .steps = object.at("steps"),
                .trace = object.at("trace")};
  for (const json& each : object.at("subgroups"))
    task.subgroups.push_back({.params = each.at(0), .depth = each.at(1)});
  for (const json& each : object.at("depths"))
    task.depths.push_back(
        {.forward = each.at(0), .backward = each.at(1), .activations = each.at(2)});
  return task;
}

std::string to_json(const StepResult& result) {
  return json{{"seconds", result.seconds},
              {"link_bytes", result.link_bytes},
              {"plan", result.plan},
              {"obstacle", result.obstacle}}
      .dump();
}

StepResult step_result_of(const std::string& text) {
  const json object = parse_json_object(text, "the simulated node", "see its log");
  if (object.contains("error")) throw Error(object.at("error").get<std::string>());
  return {.seconds = object.at("seconds"),
          .link_bytes = object.at("link_bytes"),
          .plan = object.at("plan"),
          .obstacle = object.at("obstacle")};
}

}  // namespace dos::bench
