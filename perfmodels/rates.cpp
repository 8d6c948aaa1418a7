// SPDX-License-Identifier: Apache-2.0
#include "perfmodels/rates.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"

namespace dos::perfmodels {
namespace {

template <class Q>
void expect_positive(const char* name, Q quantity) {
  const double value = quantity.value();
  expect(std::isfinite(value) && value > 0, "rate {} = {:g} must be positive and finite", name,
         value);
}

GpuRates gpu_rates(const Machine& machine) {
  const auto busy = [](const auto& limit, const auto& alone) {
    return limit ? limit->value : alone.value;
  };
  return {.update = machine.gpu_update_rate.value,
          .h2d = machine.h2d.value,
          .d2h = machine.d2h.value,
          .both = machine.both.value,
          .h2d_cpu_busy = busy(machine.h2d_cpu_busy, machine.h2d),
          .d2h_cpu_busy = busy(machine.d2h_cpu_busy, machine.d2h),
          .both_cpu_busy = busy(machine.both_cpu_busy, machine.both)};
}

}  // namespace

void Rates::validate() const {
  expect(cpu_workers >= 1, "cpu workers = {} must be at least 1", cpu_workers);
  expect_positive("cpu.update", cpu_update);
  expect_positive("cpu.worker", cpu_worker);
  expect_positive("dram", dram);
  for (const GpuRates& gpu : gpus) {
    expect_positive("gpu.update", gpu.update);
    expect_positive("link.h2d", gpu.h2d);
    expect_positive("link.d2h", gpu.d2h);
    expect_positive("link.both", gpu.both);
    expect_positive("link.h2d_cpu_busy", gpu.h2d_cpu_busy);
    expect_positive("link.d2h_cpu_busy", gpu.d2h_cpu_busy);
    expect_positive("link.both_cpu_busy", gpu.both_cpu_busy);
  }
  for (const units::Seconds latency : {transfer_latency, task_latency, allocation})
    expect(std::isfinite(latency.value()) && latency.value() >= 0,
           "latency = {:g} s must be at least 0", latency.value());
}

Rates rates_of(const Machine& machine, Index ranks) {
  expect(ranks >= 1, "ranks on a node = {} must be at least 1", ranks);
  const Index gpus = machine.gpus.value;
  expect(gpus % ranks == 0, "{} ranks on a node of {} with {} GPUs: use a divisor of {}", ranks,
         machine.name, gpus, gpus);
  const auto share = static_cast<double>(ranks);
  Rates rates;
  rates.cpu_workers = std::max<Index>(1, machine.cpu_workers.value / ranks);
  rates.cpu_update = machine.cpu_update_rate.value / share;
  rates.cpu_worker = machine.cpu_worker_rate
                         ? machine.cpu_worker_rate->value
                         : rates.cpu_update / static_cast<double>(rates.cpu_workers);
  rates.dram = machine.dram_bandwidth.value / share;
  if (gpus > 0) rates.gpus.assign(static_cast<std::size_t>(gpus / ranks), gpu_rates(machine));
  rates.transfer_latency = machine.transfer_latency.value;
  rates.task_latency = machine.task_latency.value;
  if (machine.published)
    rates.published = {.downcast = machine.published->downcast_rate.value / share,
                       .blocking_flush = machine.published->blocking_flush.value,
                       .gpu_update = machine.published->gpu_update_rate.value};
  rates.validate();
  return rates;
}

}  // namespace dos::perfmodels
