// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "simulated/exchange.hpp"
#include "simulated/request.hpp"

namespace dos::bench {

/// Runs the update phase on the node that its rates describe: writes StarPU's model of it to a
/// temporary folder, starts `program` there and waits. Throws Error when that fails.
NodeResult run_on_node(const UpdatePhase& phase, const std::filesystem::path& program);

}  // namespace dos::bench
