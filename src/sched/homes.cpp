// SPDX-License-Identifier: Apache-2.0
#include "sched/homes.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "sched/bound.hpp"
#include "sched/replay.hpp"

namespace dos::sched {
namespace {

/// Of sums of whole subgroups, relatively.
constexpr double kHomeRounding = 1e-12;
/// Of the room that throughput times passage asks for. The first is what place() takes.
constexpr std::array kFactors = {1.0, 0.4, 0.65, 1.6, 2.6};

std::size_t to_position(Index index) {
  return static_cast<std::size_t>(index);
}

double seconds_of_a_byte(const perfmodels::LinkRates& link) {
  const double in = link.in_cpu_busy.value();
  const double out = link.out_cpu_busy.value();
  if (link.half_duplex) return 1 / in + 1 / out;
  return std::max({1 / in, 1 / out, 2 / link.both_cpu_busy.value()});
}

}  // namespace

std::vector<Index> fastest_tiers(const Problem& problem) {
  std::vector<Index> tiers(problem.rates.tiers.size());
  std::iota(tiers.begin(), tiers.end(), problem.gpus());
  std::ranges::stable_sort(tiers, {},
                           [&](Index tier) { return seconds_of_a_byte(problem.link_of(tier)); });
  return tiers;
}

Problem with_tiers(const Problem& problem, const std::vector<Index>& kept) {
  Problem result = problem;
  result.rates.tiers.clear();
  for (Index tier = problem.gpus(); tier < problem.tiers(); ++tier)
    if (std::ranges::find(kept, tier) != kept.end())
      result.rates.tiers.push_back(problem.rates.tiers[to_position(tier - problem.gpus())]);
  return result;
}

Homes::Homes(const Problem& problem) : problem_(problem) {
  if (problem.rates.tiers.empty() || std::isinf(problem.host_memory.value())) return;
  for (const Index tier : fastest_tiers(problem)) {
    const perfmodels::LinkRates link = problem.link_of(tier);
    paths_.push_back(
        {.tier = tier,
         .seconds = seconds_of_a_byte(link),
         .passage = 1 / link.in_cpu_busy.value() + 1 / link.out_cpu_busy.value(),
         .latency = 2 * link.latency.value() * static_cast<double>(problem.cost.state_buffers),
         .capacity = problem.capacity_of(tier).value()});
  }
  bound_ = lower_bound(problem).time.value();
}

bool Homes::are_missing(const Plan& plan) const {
  if (paths_.empty()) return false;
  double in_host = 0;
  for (std::size_t i = 0; i < plan.assignments.size(); ++i)
    if (plan.assignments[i].home == kHost)
      in_host += problem_.away_bytes(static_cast<Index>(i)).value();
  const units::Bytes room = problem_.host_memory - problem_.slots.value_or(units::Bytes{0});
  return in_host > room.value() * (1 + kHomeRounding);
}

void Homes::place(Plan& plan) const {
  if (!are_missing(plan)) return;
  if (auto result = placed(plan, kFactors.front(), paths_.size())) plan = std::move(*result);
}

void Homes::choose(Plan& plan) const {
  Plan start = plan;
  for (Assignment& each : start.assignments)
    if (problem_.only_keeps(each.home)) each.home = kHost;
  if (!are_missing(start)) return;
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t paths = paths_.size(); paths > 0; --paths) {
    for (const double factor : kFactors) {
      if (problem_.slots && factor != kFactors.front()) break;
      auto result = placed(start, factor, paths);
      if (!result) continue;
      const double time = replay(problem_, *result).update_end.value();
      // A tie within rounding keeps the earlier plan: the result must not hang on the last bit.
      if (!(time < least * (1 - 1e-9))) continue;
      least = time;
      plan = std::move(*result);
    }
  }
}

/// Each path ends at the same time, as far as its capacity allows.
Homes::Quotas Homes::quotas(double behind, std::size_t paths) const {
  Quotas result{behind, std::vector<double>(paths, 0.0)};
  std::vector<bool> is_full(paths, false);
  double left = behind;
  for (bool settled = false; !settled;) {
    settled = true;
    double rate = 0;
    for (std::size_t p = 0; p < paths; ++p)
      if (!is_full[p]) rate += 1 / paths_[p].seconds;
    if (rate == 0) break;
    const double time = left / rate;
    for (std::size_t p = 0; p < paths; ++p) {
      if (is_full[p]) continue;
      result.by_path[p] = time / paths_[p].seconds;
      if (result.by_path[p] <= paths_[p].capacity) continue;
      result.by_path[p] = paths_[p].capacity;
      left -= paths_[p].capacity;
      is_full[p] = true;
      settled = false;
      break;
    }
  }
  return result;
}

/// Of the largest subgroup: by one worker, or over a GPU's link and back.
double Homes::update_time(const Plan& plan) const {
  const units::Params largest(static_cast<double>(problem_.largest()));
  double longest = 0;
  if (std::ranges::any_of(plan.assignments, &is_on_cpu))
    longest = largest / problem_.rates.cpu_worker / units::Seconds(1);
  for (std::size_t g = 0; g < plan.window.size(); ++g) {
    if (plan.window[g] == 0) continue;
    const perfmodels::GpuRates& gpu = problem_.rates.gpus[g];
    const units::Seconds streamed = largest * problem_.cost.streamed_in() / gpu.h2d_cpu_busy +
                                    largest / gpu.update +
                                    largest * problem_.cost.streamed_out() / gpu.d2h_cpu_busy;
    longest = std::max(longest, streamed.value());
  }
  return longest;
}

/// Bytes of host memory: of each path, what comes in the time that one subgroup is there, and one
/// subgroup more.
double Homes::on_the_way(const Plan& plan, const Quotas& quotas) const {
  const double largest = static_cast<double>(problem_.largest()) * problem_.cost.away().value();
  double time = bound_;
  for (std::size_t p = 0; p < quotas.by_path.size(); ++p)
    time = std::max(time, quotas.by_path[p] * paths_[p].seconds);
  double bytes = 0;
  for (std::size_t p = 0; p < quotas.by_path.size(); ++p) {
    const double stays = largest * paths_[p].passage + paths_[p].latency + update_time(plan);
    bytes += quotas.by_path[p] / time * stays + largest;
  }
  return bytes;
}

/// The path that is furthest behind its quota; nothing where none has room.
std::optional<std::size_t> Homes::next_path(const Quotas& quotas, const std::vector<double>& had,
                                            double bytes) const {
  std::optional<std::size_t> next;
  double least = std::numeric_limits<double>::infinity();
  // Of those with the same part of their quota the slowest begins, which has most to gain by it.
  for (std::size_t p = quotas.by_path.size(); p-- > 0;) {
    const double quota = quotas.by_path[p];
    if (quota <= 0 || had[p] + bytes / 2 > quota * (1 + kHomeRounding) ||
        had[p] + bytes > paths_[p].capacity * (1 + kHomeRounding))
      continue;
    if (had[p] / quota < least) {
      least = had[p] / quota;
      next = p;
    }
  }
  if (next) return next;
  for (std::size_t p = 0; p < quotas.by_path.size(); ++p) {
    if (had[p] + bytes > paths_[p].capacity * (1 + kHomeRounding)) continue;
    const double end = (had[p] + bytes) * paths_[p].seconds;
    if (end < least) {
      least = end;
      next = p;
    }
  }
  return next;
}

/// With `factor` times the room for what is on its way, behind the first `paths` paths.
std::optional<Plan> Homes::placed(const Plan& plan, double factor, std::size_t paths) const {
  const auto count = static_cast<Index>(plan.assignments.size());
  const double memory = problem_.host_memory.value();
  double all = 0;
  double largest = 0;
  for (Index i = 0; i < count; ++i) {
    if (plan.assignments[to_position(i)].home != kHost) continue;
    const double bytes = problem_.away_bytes(i).value();
    all += bytes;
    largest = std::max(largest, bytes);
  }
  // Room for what is on its way makes more go behind host memory; how much less is second order.
  const double wanted = problem_.slots
                            ? problem_.slots->value()
                            : factor * on_the_way(plan, quotas(std::max(0.0, all - memory), paths));
  const double room = memory - std::clamp(wanted, std::min(largest, memory), memory);
  const Quotas quotas = this->quotas(all - room, paths);
  Plan result = plan;
  std::vector<double> had(paths, 0.0);
  double seen = 0;
  double kept = 0;
  for (Index i = 0; i < count; ++i) {
    Assignment& assignment = result.assignments[to_position(i)];
    if (assignment.home != kHost) continue;
    const double bytes = problem_.away_bytes(i).value();
    const bool stays_well = kept + bytes <= room * (1 + kHomeRounding);
    const double gone = seen - kept;
    seen += bytes;
    // The first goes, so that reading begins at once.
    const bool is_due = gone * all <= quotas.behind * (seen - bytes) * (1 + kHomeRounding) &&
                        gone < quotas.behind * (1 - kHomeRounding);
    const auto path = is_due || !stays_well ? next_path(quotas, had, bytes) : std::nullopt;
    if (!path) {
      if (!stays_well) return std::nullopt;
      kept += bytes;
      continue;
    }
    had[*path] += bytes;
    assignment.home = paths_[*path].tier;
  }
  return result;
}

}  // namespace dos::sched
