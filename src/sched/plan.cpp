// SPDX-License-Identifier: Apache-2.0
#include "sched/plan.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace dos::sched {

const char* name_of(Placement placement) {
  switch (placement) {
    case Placement::kCpu:
      return "cpu";
    case Placement::kStreamed:
      return "streamed";
    case Placement::kResident:
      return "resident";
  }
  return "?";
}

std::vector<Index> Plan::cpu_order() const {
  std::vector<Index> order;
  for (std::size_t i = 0; i < assignments.size(); ++i)
    if (assignments[i].placement == Placement::kCpu) order.push_back(static_cast<Index>(i));
  return order;
}

std::vector<Index> Plan::gpu_order(Index gpu) const {
  std::vector<Index> order;
  for (std::size_t i = 0; i < assignments.size(); ++i)
    if (assignments[i].placement != Placement::kCpu && assignments[i].gpu == gpu)
      order.push_back(static_cast<Index>(i));
  return order;
}

double Plan::share(const Problem& problem, Placement placement) const {
  double sum = 0;
  for (std::size_t i = 0; i < assignments.size(); ++i)
    if (assignments[i].placement == placement)
      sum += static_cast<double>(problem.subgroups[i].params);
  return sum / problem.total().value();
}

double Plan::gpu_share(const Problem& problem) const {
  return share(problem, Placement::kStreamed) + share(problem, Placement::kResident);
}

std::string describe(const Plan& plan, const Problem& problem) {
  const std::string where = problem.gpus() == 0
                                ? std::string("on the CPU")
                                : fmt::format("{:.1f} % on the GPU ({:.1f} % resident), window {}",
                                              100 * plan.gpu_share(problem),
                                              100 * plan.share(problem, Placement::kResident),
                                              fmt::join(plan.window, "/"));
  return fmt::format("{}: {:.4g} M parameters, {}, {:.1f} ms, bound {:.1f} ms ({})", plan.policy,
                     problem.total().value() / 1e6, where, plan.time.value() * 1e3,
                     plan.bound.time.value() * 1e3, plan.bound.binding);
}

}  // namespace dos::sched
