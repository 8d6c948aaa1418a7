// SPDX-License-Identifier: Apache-2.0
#include "simulated/json_options.hpp"

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

json options_json(const sched::PolicyOptions& options) {
  json object{{"residents", options.residents}};
  put(object, "stride", options.stride);
  put(object, "share", options.share);
  put(object, "window", options.window);
  return object;
}

sched::PolicyOptions options_of(const json& object) {
  sched::PolicyOptions options;
  options.residents = object.at("residents");
  get(object, "stride", options.stride);
  get(object, "share", options.share);
  get(object, "window", options.window);
  return options;
}

}  // namespace dos::bench
