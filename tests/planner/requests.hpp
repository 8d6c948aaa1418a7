// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "planner/planner.hpp"
#include "shape/model.hpp"

namespace dos::test {

inline std::filesystem::path machine_folder() {
  return std::filesystem::path(std::getenv("DOS_SOURCE_DIR")) / "perfmodels" / "machines";
}

inline shape::Model preset(const std::string& name) {
  return shape::model_of(name, shape::find_preset(name, "model", shape::preset_names()));
}

/// A model of LLaMA's blocks with these parameters in the place of its own.
inline shape::Model model_with(std::vector<shape::ParameterSpec> parameters,
                               shape::ModelConfig config = {}) {
  return {.name = "m",
          .config = std::move(config),
          .family = &shape::llama(),
          .parameters = std::move(parameters)};
}

/// A vector of so many parameters.
inline shape::ParameterSpec vector(const std::string& name, Index count, Index depth) {
  return {.name = name, .columns = count, .init = {}, .depth = depth};
}

inline planner::Request request(const std::string& machine, const std::string& model, Index ranks) {
  planner::Request result;
  result.machine = perfmodels::find_machine(machine, machine_folder());
  result.model = preset(model);
  result.ranks = ranks;
  return result;
}

}  // namespace dos::test
