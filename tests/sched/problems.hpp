// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>

#include "base/random.hpp"
#include "sched/workload.hpp"

namespace dos::test {

/// One GPU behind a link of `link` GB/s each way, a CPU of `cpu` Gparam/s on one worker, DRAM and
/// GPU that limit nothing, no latencies; `count` subgroups of 10^9 parameters.
inline sched::Problem simple_problem(Index count, double cpu, double link) {
  sched::Problem problem;
  for (Index i = 0; i < count; ++i) problem.subgroups.push_back({1'000'000'000, i});
  problem.rates.cpu_workers = 1;
  problem.rates.cpu_update = problem.rates.cpu_worker = units::gparams_per_second(cpu);
  problem.rates.dram = units::gigabytes_per_second(1e6);
  perfmodels::GpuRates gpu;
  gpu.update = units::gparams_per_second(1e6);
  gpu.h2d = gpu.d2h = gpu.h2d_cpu_busy = gpu.d2h_cpu_busy = units::gigabytes_per_second(link);
  gpu.both = gpu.both_cpu_busy = gpu.h2d * 2;
  problem.rates.gpus = {gpu};
  problem.memory = {{units::gigabytes(1000), units::gigabytes(0)}};
  problem.cost.weight = units::BytesPerParam(0);
  return problem;
}

/// A random machine and model: rates over two decades, 0 to 3 GPUs, 1 to 12 workers, up to 40
/// subgroups of unequal sizes, memory from nothing to everything.
inline sched::Problem random_problem(const Philox& random, std::uint64_t stream) {
  std::uint64_t next = 0;
  const auto uniform = [&](double low, double high) {
    return low + (high - low) * random.uniform(next++, stream);
  };
  const auto decades = [&](double low, double high) {
    return low * std::pow(high / low, uniform(0, 1));
  };
  sched::Problem problem;
  const auto count = static_cast<Index>(decades(1, 40.99));
  const double size = decades(1e3, 1e8);
  const bool equal = uniform(0, 1) < 0.5;
  for (Index i = 0; i < count; ++i)
    problem.subgroups.push_back(
        {std::max<Index>(1, static_cast<Index>(size * (equal ? 1 : uniform(0.05, 1)))), i / 3});
  perfmodels::Rates& rates = problem.rates;
  rates.cpu_workers = static_cast<Index>(uniform(1, 12.99));
  rates.cpu_update = units::gparams_per_second(decades(0.1, 10));
  rates.cpu_worker = rates.cpu_update / static_cast<double>(rates.cpu_workers) *
                     (uniform(0, 1) < 0.5 ? 1.0 : uniform(1, 3));
  rates.dram = rates.cpu_update * perfmodels::kCpuUpdateTraffic * decades(1, 10);
  const auto gpus = static_cast<Index>(uniform(0, 3.99));
  const double all = problem.total().value() * 12;
  for (Index g = 0; g < gpus; ++g) {
    perfmodels::GpuRates gpu;
    gpu.update = units::gparams_per_second(decades(1, 100));
    gpu.h2d = units::gigabytes_per_second(decades(4, 400));
    gpu.d2h = gpu.h2d * uniform(0.7, 1.3);
    gpu.both = std::max(gpu.h2d, gpu.d2h) + std::min(gpu.h2d, gpu.d2h) * uniform(0, 1);
    const double busy = uniform(0, 1) < 0.5 ? 1 : uniform(0.5, 1);
    gpu.h2d_cpu_busy = gpu.h2d * busy;
    gpu.d2h_cpu_busy = gpu.d2h * busy;
    gpu.both_cpu_busy = gpu.both * busy;
    rates.gpus.push_back(gpu);
    problem.memory.push_back(
        {units::Bytes(all * uniform(0, 1)), units::Bytes(all * std::max(0.0, uniform(-0.5, 0.7)))});
  }
  rates.transfer_latency = units::microseconds(uniform(0, 1) < 0.3 ? 0 : uniform(1, 30));
  rates.task_latency = units::microseconds(uniform(0, 1) < 0.3 ? 0 : uniform(1, 10));
  problem.cost.weight = units::BytesPerParam(gpus == 0 ? 0 : (uniform(0, 1) < 0.5 ? 2 : 4));
  problem.cost.gradient = units::BytesPerParam(gpus > 0 && uniform(0, 1) < 0.5 ? 2 : 0);
  if (gpus > 0 && uniform(0, 1) < 0.3) {  // the CPU runs forward and backward, in FP32 or BF16
    const bool fp32 = uniform(0, 1) < 0.5;
    problem.cost.weight = problem.cost.gradient = units::BytesPerParam(0);
    problem.cost.host_gradient = problem.cost.host_parameter = units::BytesPerParam(fp32 ? 4 : 2);
    problem.cost.host_weight = units::BytesPerParam(fp32 ? 0 : 2);
  } else if (gpus > 0 && uniform(0, 1) < 0.3) {  // sums of several ranks' gradients arrive there
    problem.cost.gradient = units::BytesPerParam(0);
    problem.cost.host_gradient = units::BytesPerParam(4);
  }
  return problem;
}

}  // namespace dos::test
