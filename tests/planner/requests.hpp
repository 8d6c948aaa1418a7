// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <filesystem>

#include "planner/planner.hpp"

namespace dos::test {

inline std::filesystem::path machine_folder() {
  return std::filesystem::path(std::getenv("DOS_SOURCE_DIR")) / "perfmodels" / "machines";
}

inline planner::Request request(const std::string& machine, const std::string& model, Index ranks) {
  planner::Request result;
  result.machine = perfmodels::find_machine(machine, machine_folder());
  result.model = planner::find_llama(model).value();
  result.ranks = ranks;
  return result;
}

}  // namespace dos::test
