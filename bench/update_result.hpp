// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <starpu.h>

#include "sched_starpu/policies.hpp"
#include "simulated/exchange.hpp"

/// What update_phase asks of a running StarPU, on simulated and on real devices.
namespace dos::bench {

/// Updates before those that count: in the first the policy learns the rates, then it plans and
/// states that stay on a GPU move there; rates settle within some ten updates, and with them the
/// plan.
inline constexpr Index kWarmUps = 4;

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

/// Runs `step` as often as the task asks after the warm-ups, and adds what the policy says.
template <class Step>
NodeResult measure(Index steps, Step&& step) {
  NodeResult result;
  for (Index i = 0; i < kWarmUps + steps; ++i) {
    const NodeStep measured = step();
    if (i < kWarmUps)
      result.settling.push_back(measured.seconds);
    else
      result.steps.push_back(measured);
  }
  const sched_starpu::Report report = sched_starpu::report();
  result.plan = report.plan;
  result.obstacle = report.obstacle;
  if (!report.steps.empty())
    result.gpu_share = report.steps.back().executed_gpu / report.steps.back().total;
  return result;
}

}  // namespace dos::bench
