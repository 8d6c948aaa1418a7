// SPDX-License-Identifier: Apache-2.0
#include "simulated/exchange.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "simulated/json_options.hpp"

namespace dos::bench {

using nlohmann::json;

std::vector<Index> deal(const std::vector<sched::Subgroup>& subgroups, Index gpus) {
  std::vector<Index> users;
  Index small = 0;
  Index large = 0;
  for (const sched::Subgroup& each : subgroups)
    users.push_back((each.params > subgroups.front().params ? large++ : small++) % gpus);
  return users;
}

std::string to_json(const NodeTask& task) {
  return json{{"policy", task.policy},     {"options", options_json(task.options)},
              {"params", task.params},     {"subgroup_params", task.cut.size},
              {"large", task.cut.large},   {"large_params", task.cut.large_params},
              {"gpus", task.gpus},         {"cpu_workers", task.cpu_workers},
              {"cpu_rate", task.cpu_rate}, {"gpu_rate", task.gpu_rate},
              {"steps", task.steps},       {"warm_ups", task.warm_ups},
              {"slow_gpu", task.slow.gpu}, {"slow_worker", task.slow.worker}}
      .dump();
}

NodeTask node_task_of(const std::string& text) {
  const json object = parse_json_object(text, "the simulated node", "see its log");
  return {.policy = object.at("policy"),
          .options = options_of(object.at("options")),
          .params = object.at("params"),
          .cut = {.size = object.at("subgroup_params"),
                  .large = object.at("large"),
                  .large_params = object.at("large_params")},
          .gpus = object.at("gpus"),
          .cpu_workers = object.at("cpu_workers"),
          .cpu_rate = object.at("cpu_rate"),
          .gpu_rate = object.at("gpu_rate"),
          .steps = object.at("steps"),
          .warm_ups = object.at("warm_ups"),
          .slow = {.gpu = object.at("slow_gpu"), .worker = object.at("slow_worker")}};
}

std::string to_json(const NodeResult& result) {
  json steps = json::array();
  for (const NodeStep& step : result.steps)
    steps.push_back(
        {{"seconds", step.seconds}, {"bytes_h2d", step.bytes_h2d}, {"bytes_d2h", step.bytes_d2h}});
  json object{{"settling", result.settling},
              {"steps", steps},
              {"plan", result.plan},
              {"obstacle", result.obstacle},
              {"gpu_share", result.gpu_share}};
  if (result.slow_seconds) object["slow_seconds"] = *result.slow_seconds;
  return object.dump();
}

std::string error_json(const std::string& message) {
  return json{{"error", message}}.dump();
}

NodeResult node_result_of(const std::string& text) {
  const json object = parse_json_object(text, "the simulated node", "see its log");
  if (object.contains("error")) throw Error(object.at("error").get<std::string>());
  NodeResult result{.settling = object.at("settling"),
                    .steps = {},
                    .plan = object.at("plan"),
                    .obstacle = object.at("obstacle"),
                    .gpu_share = object.at("gpu_share")};
  if (object.contains("slow_seconds")) result.slow_seconds = object.at("slow_seconds");
  for (const json& step : object.at("steps"))
    result.steps.push_back({.seconds = step.at("seconds"),
                            .bytes_h2d = step.at("bytes_h2d"),
                            .bytes_d2h = step.at("bytes_d2h")});
  return result;
}

}  // namespace dos::bench
