// SPDX-License-Identifier: Apache-2.0
#include "calibration/results.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.hpp"
#include "calibration/calibration_report.hpp"
#include "perfmodels/machine_keys.hpp"

namespace dos::calibration {
namespace {

using perfmodels::Key;
using perfmodels::Machine;
using perfmodels::Tier;

/// Numbers are written with five digits.
constexpr double kRounding = 1e-4;

Result* find(std::vector<Result>& results, const std::string& key) {
  const auto found = std::find_if(results.begin(), results.end(), [&](const Result& result) {
    return result.key == key && result.device.empty();
  });
  return found == results.end() ? nullptr : &*found;
}

void raise(Result* result, double least, const std::string& why) {
  if (result == nullptr || result->value >= least) return;
  result->value = least;
  result->how += fmt::format("; raised to {}", why);
}

void lower(Result* result, double most, const std::string& why) {
  if (result == nullptr || result->value <= most) return;
  result->value = most;
  result->how += fmt::format("; lowered to {}", why);
}

/// One worker is not faster than all of them, nor do all reach more than so many alone: where noise
/// says so, the reading of all counts, which is of more work.
void reconcile_workers(std::vector<Result>& results) {
  const Result* update = find(results, "cpu.update_rate");
  const Result* workers = find(results, "node.cpu_workers");
  if (update == nullptr || workers == nullptr) return;
  lower(find(results, "cpu.worker_rate"), update->value, "the rate of all workers");
  raise(find(results, "cpu.worker_rate"), update->value / workers->value,
        "its part of all workers' rate");
}

/// Both at once are not faster than the sum, nor is anything faster beside a busy CPU.
void reconcile_link(std::vector<Result>& results, const std::string& in_key,
                    const std::string& out_key, const std::string& both_key) {
  const auto busy = [&](const std::string& key) { return find(results, key + "_cpu_busy"); };
  const Result* in = find(results, in_key);
  const Result* out = find(results, out_key);
  if (in == nullptr || out == nullptr) return;
  lower(busy(in_key), in->value, in_key);
  lower(busy(out_key), out->value, out_key);
  Result* both = find(results, both_key);
  if (both == nullptr) return;
  lower(both, in->value + out->value, "the sum of the directions");
  lower(busy(both_key), both->value, both_key);
  if (busy(in_key) != nullptr && busy(out_key) != nullptr)
    lower(busy(both_key), busy(in_key)->value + busy(out_key)->value, "the sum of the directions");
}

/// "tier.nvme" of "tier.nvme.link.read", each once.
std::vector<std::string> tiers_of(const std::vector<Result>& results) {
  std::vector<std::string> tiers;
  for (const Result& result : results) {
    const auto number = tier_number(result.key);
    if (number && (tiers.empty() || tiers.back() != "tier." + number->tier))
      tiers.push_back("tier." + number->tier);
  }
  return tiers;
}

/// A disk that moves less at once than in its faster direction had better take turns: so says a
/// machine file without a rate of both.
void reconcile_tier(std::vector<Result>& results, const std::string& tier) {
  const std::string both_key = tier + ".link.both";
  const Result* read = find(results, tier + ".link.read");
  const Result* write = find(results, tier + ".link.write");
  const Result* both = find(results, both_key);
  if (read != nullptr && write != nullptr && both != nullptr &&
      both->value < std::max(read->value, write->value))
    std::erase_if(results, [&](const Result& each) { return each.key.starts_with(both_key); });
  reconcile_link(results, tier + ".link.write", tier + ".link.read", both_key);
}

std::string source(const Result& result, const std::string& date) {
  if (result.rounds == 0) return fmt::format("read by calibrate, {}: {}", date, result.how);
  return fmt::format("measured by calibrate, median of {}, spread {:.1f} %, {}: {}", result.rounds,
                     result.spread * 100, date, result.how);
}

std::vector<std::string> likely_reasons(const Conditions& conditions) {
  std::vector<std::string> reasons;
  // A process of its own takes one core for a part of the minute.
  constexpr double kQuiet = 0.3;
  if (conditions.load > kQuiet || conditions.taken > kMostTaken)
    reasons.push_back(
        fmt::format("other programs (load average {:.2f} on {} cores before it began)",
                    conditions.load, conditions.cores));
  if (!conditions.governor.empty() && conditions.governor != "performance")
    reasons.push_back(fmt::format("a changing frequency (governor '{}')", conditions.governor));
  if (reasons.empty()) reasons.emplace_back("neighbours on the same hardware, or its temperature");
  return reasons;
}

Tier& tier_of(Machine& machine, const std::string& name) {
  const auto found = std::ranges::find(machine.tiers, name, &Tier::name);
  if (found != machine.tiers.end()) return *found;
  machine.tiers.push_back({});
  machine.tiers.back().name = name;
  return machine.tiers.back();
}

/// Those that were not measured again, and what nobody can measure.
void keep_tiers(const Machine& before, Machine& machine) {
  for (const Tier& tier : before.tiers) {
    const auto found = std::ranges::find(machine.tiers, tier.name, &Tier::name);
    if (found == machine.tiers.end())
      machine.tiers.push_back(tier);
    else
      found->endurance = tier.endurance;
  }
}

bool differs(double before, double after, double noise) {
  if (before == 0) return after != 0;
  return std::abs(after / before - 1) > std::max(noise, kRounding);
}

}  // namespace

Result measured(std::string key, const Summary& summary, std::string how) {
  return {.key = std::move(key),
          .value = summary.median,
          .spread = summary.spread,
          .rounds = summary.rounds,
          .how = std::move(how),
          .device = ""};
}

Result counted(std::string key, Index value, std::string how) {
  return {.key = std::move(key),
          .value = static_cast<double>(value),
          .spread = 0,
          .rounds = 0,
          .how = std::move(how),
          .device = ""};
}

void reconcile(std::vector<Result>& results) {
  if (const Result* update = find(results, "cpu.update_rate"))
    raise(find(results, "dram.bandwidth"), update->value * perfmodels::kCpuUpdateTraffic.value(),
          "what the update moved");
  reconcile_workers(results);
  if (find(results, "link.both") != nullptr) {
    const Result* in = find(results, "link.h2d");
    const Result* out = find(results, "link.d2h");
    if (in != nullptr && out != nullptr)
      raise(find(results, "link.both"), std::max(in->value, out->value), "the faster direction");
    reconcile_link(results, "link.h2d", "link.d2h", "link.both");
  }
  for (const std::string& tier : tiers_of(results)) reconcile_tier(results, tier);
}

std::vector<Result> noisy(const std::vector<Result>& results, double most_spread) {
  std::vector<Result> found;
  std::copy_if(results.begin(), results.end(), std::back_inserter(found),
               [&](const Result& result) { return result.spread > most_spread; });
  return found;
}

double taken_by_others(const platform::ProcessorTime& before, const platform::ProcessorTime& after,
                       double own) {
  const double busy = after.busy - before.busy;
  const double stolen = after.stolen - before.stolen;
  const double all = busy + stolen + after.idle - before.idle;
  return all > 0 ? std::max(0.0, busy - own + stolen) / all : 0;
}

std::string objection(const std::vector<Result>& results, const Effort& effort,
                      const Conditions& conditions) {
  const std::vector<Result> unsteady = noisy(results, effort.most_spread);
  const bool is_disturbed = conditions.taken > kMostTaken;
  if (unsteady.empty() && !is_disturbed) return "";
  std::vector<std::string> faults;
  for (const Result& result : unsteady)
    faults.push_back(fmt::format("{} = {}, spread {:.1f} %", result.key,
                                 in_unit(result.key, result.value), result.spread * 100));
  std::string text = "too noisy to be used: ";
  if (!unsteady.empty())
    text += fmt::format("{}; at most {:g} % is allowed ({} attempts of {} rounds); ",
                        fmt::join(faults, "; "), effort.most_spread * 100, effort.attempts,
                        effort.rounds);
  if (is_disturbed)
    text += fmt::format("others had {:.0f} % of the processors' time, at most {:g} % is allowed; ",
                        conditions.taken * 100, kMostTaken * 100);
  return text + fmt::format(
                    "likely reasons: {}; remove them and run again, or accept the noise with "
                    "--allow-noise; nothing was written",
                    fmt::join(likely_reasons(conditions), ", "));
}

Machine assemble(const std::vector<Result>& results, const perfmodels::Calibration& calibration,
                 const std::string& description, const std::optional<Machine>& before) {
  Machine machine;
  machine.description = description;
  machine.calibration = calibration;
  for (const Result& result : results) {
    if (!result.device.empty()) continue;
    const perfmodels::Sourced<double> number{
        result.value, source(result, calibration.date),
        result.rounds == 0 ? std::nullopt : std::optional(result.spread)};
    if (const auto of_tier = tier_number(result.key))
      of_tier->key.set(tier_of(machine, of_tier->tier), number);
    else
      key_of(result.key).set(machine, number);
  }
  if (before) keep_tiers(*before, machine);
  if (before && machine.gpus.value > 0) {
    machine.gather = before->gather;
    machine.published = before->published;
  }
  if (before) machine.network = before->network;
  return perfmodels::parse_machine(perfmodels::machine_text(machine), "this measurement",
                                   calibration.host.name);
}

namespace {

void compare(const std::string& key, const std::optional<perfmodels::Sourced<double>>& old,
             const std::optional<perfmodels::Sourced<double>>& now, std::vector<Change>& found) {
  if (!old && !now) return;
  Change change{.key = key, .before = std::nullopt, .after = std::nullopt, .noise = 0};
  if (old) change.before = old->value;
  if (now) change.after = now->value;
  if (old && now) change.noise = old->spread.value_or(0) + now->spread.value_or(0);
  if (!old || !now || differs(old->value, now->value, change.noise)) found.push_back(change);
}

}  // namespace

std::vector<Change> changes(const Machine& before, const Machine& after) {
  std::vector<Change> found;
  const auto number = [](const Key& key, const Machine& machine) {
    const bool absent = key.needs_gpu() && machine.gpus.value == 0;
    return absent ? std::nullopt : key.get(machine);
  };
  for (const Key& key : perfmodels::machine_keys())
    compare(key.name, number(key, before), number(key, after), found);
  // No tier goes: what is not measured again is kept.
  for (const Tier& tier : after.tiers) {
    const auto old = std::ranges::find(before.tiers, tier.name, &Tier::name);
    for (const perfmodels::TierKey& key : perfmodels::tier_keys())
      compare("tier." + tier.name + "." + key.name,
              old == before.tiers.end() ? std::nullopt : key.get(*old), key.get(tier), found);
  }
  return found;
}

}  // namespace dos::calibration
