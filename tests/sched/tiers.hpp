// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "problems.hpp"

// Problems with a tier that only keeps states, such as disks.
namespace dos::test {

/// No latency, no limit of space.
inline perfmodels::TierRates disk(const std::string& name, double read, double write) {
  perfmodels::LinkRates link;
  link.in = link.in_cpu_busy = units::gigabytes_per_second(write);
  link.out = link.out_cpu_busy = units::gigabytes_per_second(read);
  link.both = link.both_cpu_busy = link.in + link.out;
  return {.name = name, .capacity = units::gigabytes(1e6), .link = link};
}

/// simple_problem() with host memory for the states of `in_host` of its subgroups.
inline sched::Problem with_disk(Index count, double cpu, double read, double write,
                                double in_host) {
  sched::Problem problem = simple_problem(count, cpu, /*link=*/12);
  problem.rates.tiers = {disk("nvme", read, write)};
  problem.host_memory = problem.held_bytes(0) * in_host;
  return problem;
}

inline sched::Problem without_gpu(sched::Problem problem) {
  problem.rates.gpus.clear();
  problem.memory.clear();
  return problem;
}

/// A random problem with one GPU and a disk or two; host memory for a part of the states.
inline std::optional<sched::Problem> random_tiers(const Philox& random, std::uint64_t stream,
                                                  Index gpus) {
  sched::Problem problem = random_problem(random, stream);
  if (problem.gpus() != gpus) return std::nullopt;
  std::uint64_t next = 1000;
  const auto uniform = [&] { return random.uniform(next++, stream); };
  const double states = problem.total().value() * problem.cost.state.value();
  const double largest = static_cast<double>(problem.largest()) * problem.cost.state.value();
  problem.host_memory = units::Bytes(largest * (1 + 2 * uniform()) + states * uniform());
  const auto disks = uniform() < 0.5 ? 1 : 2;
  for (int i = 0; i < disks; ++i) {
    const double read = std::pow(10.0, 2 * uniform());
    perfmodels::TierRates tier = disk("disk" + std::to_string(i), read, read * (0.3 + uniform()));
    tier.link.half_duplex = uniform() < 0.5;
    if (!tier.link.half_duplex)
      tier.link.both = std::max(tier.link.in, tier.link.out) * (1 + 0.3 * uniform());
    tier.link.both = tier.link.both_cpu_busy =
        std::min(tier.link.both, tier.link.in + tier.link.out);
    tier.link.latency = units::microseconds(100 * uniform());
    tier.capacity = units::Bytes(states * (0.6 + uniform()));
    problem.rates.tiers.push_back(tier);
  }
  return problem;
}

}  // namespace dos::test
