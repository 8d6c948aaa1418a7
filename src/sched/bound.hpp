// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "sched/workload.hpp"

namespace dos::sched {

/// How far the optimum uses a resource.
struct ResourceUse {
  std::string name;        ///< "cpu", "dram", "gpu 0 h2d", "nvme read", "gpu 1 memory", ...
  double utilisation = 0;  ///< 1: tight
  double weight = 0;       ///< share of the bound that falls when the resource grows, relative
};

/// Parameters whose states live in one tier and are updated by one device.
struct Part {
  Index home = kHost;
  Index device = kHost;
  units::Params params{0};
};

/// What all CPU workers together update at most.
units::ParamsPerSecond cpu_rate(const perfmodels::Rates& rates);

/// The fastest update that rates and memory allow, whatever the order: docs/scheduler.md states the
/// linear programme. Fill, drain, latencies and whole subgroups are left out, so no schedule is
/// faster.
struct Bound {
  units::Seconds time;
  std::vector<Part> parts;              ///< all, each home and device once
  units::Params cpu;                    ///< updated there, wherever they live
  std::vector<units::Params> streamed;  ///< by GPU, wherever they live
  std::vector<units::Params> resident;  ///< by GPU
  std::vector<ResourceUse> resources;
  std::string binding;  ///< the resource whose growth helps most
};

struct BoundOptions {
  bool busy_links = false;   ///< links at the rates of a busy CPU: a forecast, not a bound
  bool half_duplex = false;  ///< one direction of a link at a time
  bool residents = true;     ///< states may stay on the GPU
  /// GPUs have equal parts of the CPU's working parameters and gradients, as plans deal them: a
  /// forecast, as whole subgroups may be dealt better.
  bool deals_evenly = false;
  /// What each GPU computes besides, such as forward and backward: the bound is then one of a step.
  units::Seconds passes{0};
};

/// Throws Error when the states fit nowhere.
Bound lower_bound(const Problem& problem, const BoundOptions& options = {});

}  // namespace dos::sched
