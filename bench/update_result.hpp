// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <starpu.h>

#include "sched_starpu/policies.hpp"
#include "simulated/node_protocol.hpp"

/// What update_phase asks of a running StarPU, on simulated and on real devices.
namespace dos::bench {

/// Bytes over all links since the last call, by direction.
inline NodeStep take_transferred() {
  NodeStep sum;
  for (int bus = 0; bus < starpu_bus_get_count(); ++bus) {
    starpu_profiling_bus_info info{};
    starpu_bus_get_profiling_info(bus, &info);
    const auto bytes = static_cast<double>(info.transferred_bytes);
    if (starpu_bus_get_dst(bus) != STARPU_MAIN_RAM) sum.bytes_h2d += bytes;
    if (starpu_bus_get_src(bus) != STARPU_MAIN_RAM) sum.bytes_d2h += bytes;
  }
  return sum;
}

/// Runs `step` `warm_ups` times, then as often as the task asks, and adds what the policy says.
template <class Step>
NodeResult measure(Index warm_ups, Index steps, Step&& step) {
  NodeResult result;
  for (Index i = 0; i < warm_ups + steps; ++i) {
    const NodeStep measured = step();
    if (i < warm_ups)
      result.settling.push_back(measured.seconds);
    else
      result.steps.push_back(measured);
  }
  const sched_starpu::UpdatesReport report = sched_starpu::report();
  result.plan = report.plan;
  result.obstacle = report.obstacle;
  if (!report.steps.empty())
    result.gpu_share = report.steps.back().executed_gpu / report.steps.back().total;
  return result;
}

}  // namespace dos::bench
