// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

#include <optional>
#include <string>

#include "base/error.hpp"
#include "base/json.hpp"
#include "sched/cut.hpp"
#include "sched/policy.hpp"

// How a program and the program on the simulated node tell each other their structures: the fields
// of each are named once, for both directions.

/// Absent is null.
template <class T>
struct nlohmann::adl_serializer<std::optional<T>> {
  static void to_json(json& object, const std::optional<T>& value) {
    if (value) object = *value;
  }
  static void from_json(const json& object, std::optional<T>& value) {
    if (!object.is_null()) value = object.get<T>();
  }
};

namespace dos::sched {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PolicyOptions, stride, share, window, residents)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Cut, size, large, large_params)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Subgroup, params, depth)

}  // namespace dos::sched

namespace dos::bench {

template <class T>
std::string write_message(const T& value) {
  return nlohmann::json(value).dump();
}

/// In place of a result: what failed.
inline std::string failure_message(const std::string& what) {
  return nlohmann::json{{"error", what}}.dump();
}

/// Reverses write_message(). Throws Error with what failed on the node when that is what it says.
template <class T>
T read_message(const std::string& text) {
  const nlohmann::json object = parse_json_object(text, "the simulated node", "see its log");
  if (object.contains("error")) throw Error(object.at("error").get<std::string>());
  return object.get<T>();
}

}  // namespace dos::bench
