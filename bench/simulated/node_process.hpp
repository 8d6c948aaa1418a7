// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "simulated/node_protocol.hpp"
#include "simulated/simulation_request.hpp"

namespace dos::bench {

/// A node to simulate.
struct NodeHost {
  std::string machine;
  perfmodels::Rates rates;
  units::Bytes gpu_memory{0};  ///< that StarPU may use, of each GPU
};

/// Starts `program` with `task` on the node: writes StarPU's model of it to a temporary folder,
/// waits, and returns what the program said. Throws Error when that fails.
std::string run_on_node(const NodeHost& node, const std::filesystem::path& program,
                        const std::string& task);

/// Runs the update phase on the node that its rates describe.
NodeResult run_on_node(const UpdatePhase& phase, const std::filesystem::path& program);

}  // namespace dos::bench
