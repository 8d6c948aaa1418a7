// SPDX-License-Identifier: Apache-2.0
#include "simulated/exchange.hpp"

#include <nlohmann/json.hpp>

#include "base/error.hpp"

namespace dos::bench {
namespace {

using nlohmann::json;

template <class T>
void put(json& object, const char* key, const std::optional<T>& value) {
  if (value) object[key] = *value;
}

template <class T>
void get(const json& object, const char* key, std::optional<T>& value) {
  if (object.contains(key)) value = object.at(key).get<T>();
}

}  // namespace

std::string to_json(const NodeTask& task) {
  json object{{"policy", task.policy},
              {"residents", task.options.residents},
              {"params", task.params},
              {"subgroup_params", task.subgroup_params},
              {"gpus", task.gpus},
              {"cpu_workers", task.cpu_workers},
              {"cpu_rate", task.cpu_rate},
              {"gpu_rate", task.gpu_rate},
              {"steps", task.steps},
              {"slow_gpu", task.slow.gpu},
              {"slow_worker", task.slow.worker}};
  put(object, "stride", task.options.stride);
  put(object, "share", task.options.share);
  put(object, "window", task.options.window);
  return object.dump();
}

NodeTask node_task_of(const std::string& text) {
  const json object = json::parse(text);
  NodeTask task{.policy = object.at("policy"),
                .params = object.at("params"),
                .subgroup_params = object.at("subgroup_params"),
                .gpus = object.at("gpus"),
                .cpu_workers = object.at("cpu_workers"),
                .cpu_rate = object.at("cpu_rate"),
                .gpu_rate = object.at("gpu_rate"),
                .steps = object.at("steps"),
                .slow = {.gpu = object.at("slow_gpu"), .worker = object.at("slow_worker")}};
  task.options.residents = object.at("residents");
  get(object, "stride", task.options.stride);
  get(object, "share", task.options.share);
  get(object, "window", task.options.window);
  return task;
}

std::string to_json(const NodeResult& result) {
  json steps = json::array();
  for (const NodeStep& step : result.steps)
    steps.push_back(
        {{"seconds", step.seconds}, {"bytes_h2d", step.bytes_h2d}, {"bytes_d2h", step.bytes_d2h}});
  json object{{"steps", steps},
              {"plan", result.plan},
              {"obstacle", result.obstacle},
              {"gpu_share", result.gpu_share}};
  put(object, "slow_seconds", result.slow_seconds);
  return object.dump();
}

std::string error_json(const std::string& message) {
  return json{{"error", message}}.dump();
}

NodeResult node_result_of(const std::string& text) {
  const json object = json::parse(text);
  if (object.contains("error")) throw Error(object.at("error").get<std::string>());
  NodeResult result{.steps = {},
                    .plan = object.at("plan"),
                    .obstacle = object.at("obstacle"),
                    .gpu_share = object.at("gpu_share")};
  get(object, "slow_seconds", result.slow_seconds);
  for (const json& step : object.at("steps"))
    result.steps.push_back({.seconds = step.at("seconds"),
                            .bytes_h2d = step.at("bytes_h2d"),
                            .bytes_d2h = step.at("bytes_d2h")});
  return result;
}

}  // namespace dos::bench
