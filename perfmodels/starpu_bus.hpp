// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "perfmodels/rates.hpp"

namespace dos::perfmodels {

/// What the links of a simulated node reach.
enum class Links : std::uint8_t {
  kAlone,    ///< GpuRates::h2d and d2h, at most half of `both` each
  kCpuBusy,  ///< the same with the limits that were measured while all workers update
};

/// The node that StarPU can simulate: each direction of a link has one rate whatever else runs, and
/// DRAM gives everybody all they ask for. Plans, bounds and simulations with these rates speak of
/// the same node.
Rates simulated_rates(const Rates& rates, Links links);

/// A file of StarPU's bus model: `name` is relative to STARPU_PERF_MODEL_DIR.
struct BusFile {
  std::string name;
  std::string text;
};

/// The bus model of a node, as StarPU reads it with STARPU_HOSTNAME=`host`: configuration,
/// bandwidth, latency, affinity, and the platform that a StarPU built for SimGrid plays. CPU
/// workers and links are those of `rates`; copies between GPUs pass through host memory.
/// `gpu_memory`: of each GPU.
std::vector<BusFile> starpu_bus(const std::string& host, const Rates& rates,
                                units::Bytes gpu_memory);

}  // namespace dos::perfmodels
