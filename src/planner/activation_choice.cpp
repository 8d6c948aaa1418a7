// SPDX-License-Identifier: Apache-2.0
#include "planner/activation_choice.hpp"

#include <algorithm>
#include <vector>

namespace dos::planner {
namespace {

using shape::ActivationPlan;
using shape::Refill;

double real(Index value) {
  return static_cast<double>(value);
}

bool fits(const ActivationRoom& need, const ActivationRoom& room) {
  return need.device <= room.device && need.host <= room.host && need.disk <= room.disk;
}

/// Collects plans that fit, each of the fewest selective blocks.
class Search {
 public:
  Search(const PassModel& passes, const ActivationRoom& room) : passes_(passes), room_(room) {}

  /// By how many blocks have no buffers of their own for what products make, `made`. Once norms and
  /// activation functions of the others all fit, one more of them saves what nobody needs.
  std::vector<ActivationChoice> all() {
    for (const bool moves : {false, true}) {
      if (moves && !(room_.host > units::Bytes{0} || room_.disk > units::Bytes{0})) break;
      for (Index made = 0; made <= passes_.reached(); ++made) {
        ActivationPlan plan;
        (moves ? plan.hosted : plan.recomputed) = made;
        if (!take_selective(plan)) continue;
        if (moves)
          add_moving(made, plan.selective);
        else
          add(plan);
        if (plan.selective == 0) break;
      }
    }
    return std::move(found_);
  }

 private:
  /// The fewest selective blocks with which the device has room; false: there are none.
  bool take_selective(ActivationPlan& plan) const {
    for (plan.selective = 0; plan.without_cheap() <= passes_.reached(); ++plan.selective)
      if (activation_need(passes_, plan).device <= room_.device) return true;
    return false;
  }

  void add_moving(Index made, Index selective) {
    for (Index recomputed = 0; recomputed < made; ++recomputed)
      for (Index moved = 0; moved <= made - recomputed; ++moved)
        add({.moved = moved,
             .hosted = made - recomputed - moved,
             .recomputed = recomputed,
             .selective = selective});
  }

  void add(const ActivationPlan& plan) {
    if (fits(activation_need(passes_, plan), room_)) {
      const PhaseTimes times = passes_.times(plan);
      found_.push_back({plan, times.forward + times.backward});
    }
  }

  const PassModel& passes_;
  const ActivationRoom& room_;
  std::vector<ActivationChoice> found_;
};

}  // namespace

ActivationRoom activation_need(const PassModel& passes, const ActivationPlan& plan) {
  const shape::ActivationSets sets = passes.sets(plan);
  const auto buffers = [&](bool is_cheap) {
    return real(sets.count({.name = "", .width = 0, .is_wide = false, .is_cheap = is_cheap}));
  };
  return {.device = passes.made() * buffers(false) + passes.cheap() * buffers(true),
          .host = passes.made() * real(sets.count(Refill::kHost)),
          .disk = passes.made() * real(sets.count(Refill::kDisk))};
}

ActivationRank rank_of(const PassModel& passes, const ActivationPlan& plan, units::Seconds time,
                       units::Seconds fastest) {
  const shape::ActivationSets sets = passes.sets(plan);
  const Index on_disk = sets.count(Refill::kDisk);
  return {.is_slow = time > fastest * (1 + kSameTime),
          .on_disk = on_disk,
          .moved = on_disk + sets.count(Refill::kHost),
          .time = time};
}

std::optional<ActivationChoice> choose_activations(const PassModel& passes,
                                                   const ActivationRoom& room) {
  const std::vector<ActivationChoice> found = Search(passes, room).all();
  if (found.empty()) return std::nullopt;
  const units::Seconds fastest = std::ranges::min(found, {}, &ActivationChoice::passes).passes;
  return std::ranges::min(found, {}, [&](const ActivationChoice& each) {
    return rank_of(passes, each.plan, each.passes, fastest);
  });
}

}  // namespace dos::planner
