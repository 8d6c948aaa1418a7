// SPDX-License-Identifier: Apache-2.0
#include "fit/spare_memory.hpp"

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/units.hpp"
#include "fit/estimate.hpp"
#include "fit/run_memory.hpp"
#include "offload/home_plan.hpp"
#include "shape/home_split.hpp"
#include "shape/second_banks.hpp"

namespace dos::fit {
namespace {

/// Bytes that a run may have for states, or for second banks, beside what it needs.
Index memory_to_take(const planner::MemoryUse& use, Index has = 0) {
  return static_cast<Index>(shape::memory_for_states(static_cast<double>(has),
                                                     use.available.value() - use.total().value()));
}

/// Gives states what the run leaves of host memory with all that devices do not keep on disks.
void give_host_memory(train::Run& run, const Room& room) {
  run.state_memory = 0;
  const offload::HomePlan homes = train::plan_homes(run, room.workers);
  if (!homes.are_all_in_host_memory())
    run.state_memory = memory_to_take(estimate_run(run, room).host, homes.memory());
}

/// Whether each device holds what an update of the subgroup needs when it goes ahead.
bool fits_on_devices(const train::Run& run, const Room& room, Index subgroup) {
  train::Run alone = run;
  alone.ahead = {subgroup};
  const Index update = update_bytes(alone, room);
  return std::ranges::all_of(room.devices,
                             [&](const Room::Device& device) { return update <= device.bytes; });
}

train::Run with_updates_ahead(const train::Run& run, const Room& room, bool may_exceed) {
  train::Run result = run;
  result.ahead.clear();
  const std::string& asked = run.config.optim.speculate;
  if (asked == "off") return result;
  // Where disks have states these take longest, and they wait for the norm.
  const bool gains =
      !room.devices.empty() && train::plan_homes(run, room.workers).on_disks().empty();
  if (asked == "auto" && !gains) return result;
  const std::vector<Index> candidates = train::candidates_to_go_ahead(run, room.workers);
  if (asked == "on") {
    result.ahead = candidates;
    const planner::MemoryUse use = estimate_run(result, room).host;
    expect(may_exceed || use.fits(),
           "optim.speculate = on needs {} of host memory beside what the run takes, {} in all, and "
           "{} are available: use auto, which takes what is left, or off",
           format_bytes(train::bank_bytes(run, candidates).total()), size_text(use.total()),
           size_text(use.available));
    return result;
  }
  const planner::MemoryUse use = estimate_run(result, room).host;
  std::vector<double> banks;
  for (const Index subgroup : candidates) {
    if (!fits_on_devices(run, room, subgroup)) continue;
    result.ahead.push_back(subgroup);
    banks.push_back(static_cast<double>(train::bank_bytes(run, std::span(&subgroup, 1)).total()));
  }
  result.ahead.resize(shape::banks_that_fit(banks, static_cast<double>(memory_to_take(use))));
  return result;
}

}  // namespace

train::Run choose_homes(const train::Run& run, const Room& room) {
  if (run.config.disks().empty()) return with_states_on_devices(run, room);
  train::Run result = run;
  for (const double updates : {sched::kUpdatesBesideKept, sched::kLeastUpdatesBesideKept}) {
    result.device_state_memory = memory_for_states(run, room, updates);
    if (run.config.sched.host_memory == config::kAuto) give_host_memory(result, room);
    if (train::plan_homes(result, room.workers).on_disks().empty()) break;
  }
  return result;
}

train::Run choose_ahead(const train::Run& run, const Room& room, bool may_exceed) {
  train::Run result = with_updates_ahead(run, room, may_exceed);
  const planner::MemoryUse use = estimate_run(result, room).host;
  result.spare_memory =
      static_cast<Index>(std::max(0.0, use.available.value() - use.total().value()));
  return result;
}

}  // namespace dos::fit
