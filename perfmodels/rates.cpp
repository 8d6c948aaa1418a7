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

/// Without a rate of both directions at once they take turns.
TierRates tier_rates(const Tier& tier, double ranks) {
  const auto part = [&](const Sourced<units::BytesPerSecond>& rate) { return rate.value / ranks; };
  const auto busy = [&](const auto& limit, units::BytesPerSecond alone) {
    return limit ? part(*limit) : alone;
  };
  LinkRates link;
  link.in = part(tier.write);
  link.out = part(tier.read);
  link.latency = tier.latency.value;
  link.half_duplex = !tier.both;
  link.both = busy(tier.both, link.in + link.out);
  link.in_cpu_busy = busy(tier.write_cpu_busy, link.in);
  link.out_cpu_busy = busy(tier.read_cpu_busy, link.out);
  link.both_cpu_busy = busy(tier.both_cpu_busy, link.both);
  return {.name = tier.name, .capacity = tier.capacity.value / ranks, .link = link};
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
  for (const TierRates& tier : tiers) {
    expect(tier.capacity.value() >= 0, "tier {}: capacity = {:g} bytes must be at least 0",
           tier.name, tier.capacity.value());
    for (const units::BytesPerSecond rate :
         {tier.link.in, tier.link.out, tier.link.both, tier.link.in_cpu_busy,
          tier.link.out_cpu_busy, tier.link.both_cpu_busy})
      expect_positive(("of the link of tier " + tier.name).c_str(), rate);
    expect(std::isfinite(tier.link.latency.value()) && tier.link.latency.value() >= 0,
           "tier {}: latency = {:g} s must be at least 0", tier.name, tier.link.latency.value());
  }
  for (const units::Seconds latency : {transfer_latency, task_latency, allocation})
    expect(std::isfinite(latency.value()) && latency.value() >= 0,
           "latency = {:g} s must be at least 0", latency.value());
}

Rates rates_of_rule(Rates rates, Index rule_states) {
  const double faster = kCpuUpdateTraffic / update_traffic(rule_states);
  rates.cpu_update = rates.cpu_update * faster;
  rates.cpu_worker = rates.cpu_worker * faster;
  for (GpuRates& gpu : rates.gpus) gpu.update = gpu.update * faster;
  return rates;
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
  for (const Tier& tier : machine.tiers)
    if (tier.keeps_states) rates.tiers.push_back(tier_rates(tier, share));
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
