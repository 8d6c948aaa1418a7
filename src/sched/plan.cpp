// SPDX-License-Identifier: Apache-2.0
#include "sched/plan.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/error.hpp"

namespace dos::sched {

std::vector<Index> Plan::cpu_order() const {
  std::vector<Index> order;
  for (std::size_t i = 0; i < assignments.size(); ++i)
    if (is_on_cpu(assignments[i])) order.push_back(static_cast<Index>(i));
  return order;
}

std::vector<Index> Plan::gpu_order(Index gpu) const {
  std::vector<Index> order;
  for (std::size_t i = 0; i < assignments.size(); ++i)
    if (assignments[i].device == gpu) order.push_back(static_cast<Index>(i));
  return order;
}

double Plan::share(const Problem& problem, bool (*is)(const Assignment&)) const {
  double sum = 0;
  for (std::size_t i = 0; i < assignments.size(); ++i)
    if (is(assignments[i])) sum += static_cast<double>(problem.subgroups[i].params);
  return sum / problem.total().value();
}

double Plan::gpu_share(const Problem& problem) const {
  return share(problem, &is_streamed) + share(problem, &is_resident);
}

bool lives_behind_host(const Problem& problem, const Plan& plan) {
  return std::ranges::any_of(plan.assignments,
                             [&](const Assignment& each) { return problem.only_keeps(each.home); });
}

void expect_homes_fit(const Problem& problem, const std::vector<Assignment>& assignments) {
  if (problem.rates.tiers.empty() && std::isinf(problem.host_memory.value())) return;
  std::vector<units::Bytes> at_home(static_cast<std::size_t>(problem.tiers() + 1));
  units::Bytes passes{0};
  for (std::size_t i = 0; i < assignments.size(); ++i) {
    const units::Bytes bytes = problem.away_bytes(static_cast<Index>(i));
    const bool begins_in_host = !problem.homes.empty() && problem.homes[i] == kHost;
    const Index home = begins_in_host ? kHost : assignments[i].home;
    at_home[static_cast<std::size_t>(home + 1)] += bytes;
    if (problem.only_keeps(assignments[i].home)) passes = std::max(passes, bytes);
  }
  const auto expect_room = [&](Index tier, units::Bytes bytes, const char* what) {
    const units::Bytes room = problem.capacity_of(tier);
    if (bytes <= room * (1 + 1e-12)) return;
    fail("{} has {:.4g} GB for states, {} need {:.4g} GB: use more ranks or a smaller model{}",
         tier == kHost ? "host memory" : "tier " + problem.name_of_tier(tier), room.value() / 1e9,
         what, bytes.value() / 1e9, problem.rates.tiers.empty() ? "" : ", or smaller subgroups");
  };
  expect_room(kHost, at_home.front(), "those that live there");
  expect_room(kHost, at_home.front() + passes, "those that live there and one on its way");
  for (Index tier = problem.gpus(); tier < problem.tiers(); ++tier)
    expect_room(tier, at_home[static_cast<std::size_t>(tier + 1)], "those that live there");
}

std::string describe(const Plan& plan, const Problem& problem) {
  const std::string where =
      problem.gpus() == 0
          ? std::string("on the CPU")
          : fmt::format("{:.1f} % on the GPU ({:.1f} % resident), window {}",
                        100 * plan.gpu_share(problem), 100 * plan.share(problem, &is_resident),
                        fmt::join(plan.window, "/"));
  const std::string passing =
      plan.overflow > units::Bytes(0)
          ? fmt::format(", {:.3g} GB of weights pass", plan.overflow.value() / 1e9)
          : "";
  return fmt::format("{}: {:.4g} M parameters, {}, {:.1f} ms, bound {:.1f} ms ({}){}", plan.policy,
                     problem.total().value() / 1e6, where, plan.time.value() * 1e3,
                     plan.bound.time.value() * 1e3, plan.bound.binding, passing);
}

}  // namespace dos::sched
