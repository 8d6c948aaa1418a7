// SPDX-License-Identifier: Apache-2.0
#include "planner/tier_uses.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "planner/checkpoint_forecast.hpp"
#include "planner/passes.hpp"
#include "planner/run_disks.hpp"
#include "shape/home_split.hpp"
#include "shape/state_regions.hpp"

namespace dos::planner {
namespace {

constexpr double kGB = 1e9;
constexpr double kTB = 1e12;
constexpr double kSecondsADay = 24 * 3600;

std::string text_of(const TierUse& use) {
  std::string text = fmt::format(
      "{}: {:.1f} of {:.0f} GB, in files of {:.1f} GB; a step reads {:.1f} GB and writes {:.1f} "
      "GB: {:.3g} TB written a day",
      use.name, use.states.value() / kGB, use.capacity.value() / kGB, use.files.value() / kGB,
      use.read.value() / kGB, use.written.value() / kGB, use.a_day.value() / kTB);
  if (use.days) text += fmt::format(", its endurance after {:.3g} days", *use.days);
  return text + "\n";
}

/// Of a rank, whose states have this home.
units::Bytes files_on(const std::string& home, const Forecast& forecast) {
  const sched::Problem& problem = forecast.problem;
  std::vector<Index> sizes;
  for (Index i = 0; i < std::ssize(problem.subgroups); ++i)
    if (problem.name_of_tier(forecast.plan.assignments[static_cast<std::size_t>(i)].home) == home)
      sizes.push_back(static_cast<Index>(problem.away_bytes(i).value()));
  const shape::StateRegions regions = shape::regions_for(
      sizes, shape::kSlotsUnderWay, static_cast<Index>(problem.rates.tiers.size()));
  return units::Bytes(static_cast<double>(regions.total_bytes()));
}

/// What a step reads of a tier, and writes there, of all ranks of a node: states that live there,
/// for their update and after it, and activations.
units::Bytes moved_over(const perfmodels::Tier& tier, const perfmodels::Machine& machine,
                        const Forecast& forecast) {
  units::Bytes moved = states_on(tier.name, forecast.problem, forecast.plan) *
                       static_cast<double>(forecast.layout.ranks_per_node);
  for (const ActivationTier& each : activation_tiers(machine))
    if (each.tier->name == tier.name) moved += forecast.activations_on_disk * each.part;
  return moved;
}

}  // namespace

std::vector<HomePart> parts_of(const sched::Problem& problem, const sched::Plan& plan) {
  std::map<std::pair<Index, Index>, units::Bytes> parts;
  for (std::size_t i = 0; i < plan.assignments.size(); ++i) {
    const sched::Assignment& each = plan.assignments[i];
    const auto subgroup = static_cast<Index>(i);
    const units::Bytes all = problem.state_bytes(subgroup);
    const units::Bytes there = problem.only_keeps(each.home) ? problem.away_bytes(subgroup) : all;
    parts[{each.home, each.device}] += there;
    if (all > there) parts[{sched::kHost, each.device}] += all - there;
  }
  std::vector<HomePart> result;
  for (const auto& [where, states] : parts)
    result.push_back(
        {.home = problem.name_of_tier(where.first),
         .device = where.second == sched::kCpu ? "cpu" : problem.name_of_tier(where.second),
         .states = states});
  return result;
}

units::Bytes states_on(const std::string& home, const sched::Problem& problem,
                       const sched::Plan& plan) {
  units::Bytes states{0};
  for (const HomePart& part : parts_of(problem, plan))
    if (part.home == home) states += part.states;
  return states;
}

std::vector<TierUse> uses_of_tiers(const Forecast& forecast) {
  const auto ranks = static_cast<double>(forecast.layout.ranks_per_node);
  std::vector<TierUse> uses;
  for (const perfmodels::Tier& tier : forecast.machine.tiers) {
    TierUse use;
    use.name = tier.name;
    use.capacity = tier.capacity.value;
    use.states = states_on(tier.name, forecast.problem, forecast.plan) * ranks;
    use.files = files_on(tier.name, forecast) * ranks;
    use.read = use.written = moved_over(tier, forecast.machine, forecast);
    use.a_day = use.written * (kSecondsADay / forecast.step.value());
    if (tier.endurance && use.a_day.value() > 0) use.days = tier.endurance->value / use.a_day;
    uses.push_back(use);
  }
  return uses;
}

BusyDisk busiest_disk(const perfmodels::Machine& machine, const Forecast& forecast) {
  BusyDisk busiest;
  for (const perfmodels::Tier& tier : machine.tiers) {
    const units::Bytes moved = moved_over(tier, machine, forecast);
    const units::Seconds read = moved / tier.read.value;
    const units::Seconds written = moved / tier.write.value;
    const units::Seconds busy =
        std::max({read, written, tier.both ? 2 * moved / tier.both->value : read + written});
    if (busy > busiest.busy) busiest = {.name = tier.name, .busy = busy};
  }
  return busiest;
}

DiskLoad traffic_beside_activations(const Request& request, const Forecast& forecast) {
  const sched::Problem& problem = forecast.problem;
  units::Bytes away{0};
  for (const perfmodels::TierRates& tier : problem.rates.tiers)
    away += states_on(tier.name, problem, forecast.plan);
  units::Bytes in_host{0};
  for (std::size_t i = 0; i < forecast.plan.assignments.size(); ++i)
    if (forecast.plan.assignments[i].home == sched::kHost)
      in_host += problem.away_bytes(static_cast<Index>(i));
  const units::Bytes slots = problem.slots.value_or(problem.host_memory - in_host);
  const double held = away > units::Bytes{0} ? std::clamp(slots / away, 0.0, 1.0) : 0;
  const double devices = static_cast<double>(forecast.layout.devices_per_rank);
  DiskLoad most;
  for (const auto& [tier, part] : activation_tiers(request.machine)) {
    const units::Bytes states = states_on(tier->name, problem, forecast.plan) * held;
    units::Bytes written = states;
    if (request.settings.checkpoint_every > 0 &&
        tier_of(request.machine.tiers, request.settings.checkpoint_folder) == tier)
      written += checkpoint_bytes(problem, forecast.plan) /
                 static_cast<double>(request.settings.checkpoint_every);
    most.read = std::max(most.read, states / (part * devices));
    most.written = std::max(most.written, written / (part * devices));
  }
  return most;
}

units::Bytes room_for_activations(const perfmodels::Machine& machine, const Forecast& forecast) {
  const auto ranks = static_cast<double>(forecast.layout.ranks_per_node);
  units::Bytes left{0};
  for (const perfmodels::Tier& tier : machine.tiers)
    left += tier.capacity.value - files_on(tier.name, forecast) * ranks;
  units::Bytes beside{0};
  for (const auto& [tier, part] : activation_tiers(machine))
    beside += tier->capacity.value - states_on(tier->name, forecast.problem, forecast.plan) * ranks;
  return std::min(left, beside);
}

void hold_against_disks(const perfmodels::Machine& machine, Forecast& forecast) {
  if (machine.tiers.empty()) return;
  const auto hold = [&](units::Bytes wanted, units::Bytes room, const std::string& name) {
    if (wanted - room <= forecast.disk_lacks) return;
    forecast.disk_lacks = wanted - room;
    forecast.full_disk = name;
  };
  const auto ranks = static_cast<double>(forecast.layout.ranks_per_node);
  for (const perfmodels::Tier& tier : machine.tiers)
    hold(states_on(tier.name, forecast.problem, forecast.plan) * ranks, tier.capacity.value,
         tier.name);
  hold(forecast.activations_on_disk, room_for_activations(machine, forecast),
       activation_tier_names(machine));
}

std::string homes_text(const Forecast& forecast) {
  const std::vector<TierUse> uses = uses_of_tiers(forecast);
  if (uses.empty()) return "";
  std::string text = "states of a rank: home -> device\n";
  for (const HomePart& part : parts_of(forecast.problem, forecast.plan))
    text += fmt::format("  {:<34}{:>9.2f} GB\n", part.home + " -> " + part.device,
                        part.states.value() / kGB);
  for (const TierUse& use : uses) text += text_of(use);
  return text;
}

}  // namespace dos::planner
