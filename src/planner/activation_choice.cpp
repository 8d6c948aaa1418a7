// SPDX-License-Identifier: Apache-2.0
#include "planner/activation_choice.hpp"

#include <algorithm>
#include <vector>

#include "base/real.hpp"

namespace dos::planner {
namespace {

using shape::ActivationPlan;
using shape::Refill;

/// Collects plans that fit, each with the fewest selective blocks.
class Search {
 public:
  Search(const PassModel& passes, const ActivationRoom& room) : passes_(passes), room_(room) {}

  /// By how many blocks have no buffers of their own for what products make, `made`. Where all
  /// splits of these fit without selective blocks, one block more only takes time.
  std::vector<ActivationChoice> all() {
    const bool may_move = room_.host > units::Bytes{0} || room_.disk > units::Bytes{0};
    for (Index made = 0; made <= passes_.reached(); ++made) {
      if (add({.recomputed = made}) == 0) break;
    }
    for (Index made = 1; may_move && made <= passes_.reached(); ++made) {
      if (add_moving(made) == 0) break;
    }
    return std::move(found_);
  }

 private:
  /// Blocks that keep their buffers need no room, but no plan names a place that is not there.
  static bool is_open(Index blocks, units::Bytes room) {
    return blocks == 0 || room > units::Bytes{0};
  }

  [[nodiscard]] bool fits(const ActivationPlan& plan) const {
    const ActivationRoom need = activation_need(passes_, plan);
    const bool has_host = need.host <= room_.host || need.host == units::Bytes{0};
    return need.device <= room_.device && has_host && need.disk <= room_.disk;
  }

  /// The most selective blocks that one of the splits needs; -1: none of them fits.
  Index add_moving(Index made) {
    Index most = -1;
    for (Index recomputed = 0; recomputed < made; ++recomputed)
      for (Index hosted = 0; hosted <= made - recomputed; ++hosted) {
        const Index moved = made - recomputed - hosted;
        if (is_open(hosted, room_.host) && is_open(moved, room_.disk))
          most = std::max(most, add({.moved = moved, .hosted = hosted, .recomputed = recomputed}));
      }
    return most;
  }

  /// Its selective blocks; -1: it does not fit.
  Index add(ActivationPlan plan) {
    Index few = 0;
    Index many = passes_.reached() - plan.without_made();
    plan.selective = many;
    if (!fits(plan)) return -1;
    while (few < many) {
      plan.selective = few + (many - few) / 2;
      if (fits(plan))
        many = plan.selective;
      else
        few = plan.selective + 1;
    }
    plan.selective = few;
    const PhaseTimes times = passes_.times(plan);
    found_.push_back({plan, times.forward + times.backward});
    return few;
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
  const Index passing = passes.has_link() ? sets.in_transit() : 0;
  return {.device = passes.made() * buffers(false) + passes.cheap() * buffers(true),
          .host = passes.made() * real(sets.count(Refill::kHost) + passing),
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

std::size_t preferred(const PassModel& passes, std::span<const ActivationChoice> choices) {
  const units::Seconds fastest = std::ranges::min(choices, {}, &ActivationChoice::time).time;
  const auto first = std::ranges::min_element(choices, {}, [&](const ActivationChoice& each) {
    return rank_of(passes, each.plan, each.time, fastest);
  });
  return static_cast<std::size_t>(first - choices.begin());
}

std::optional<ActivationChoice> choose_activations(const PassModel& passes,
                                                   const ActivationRoom& room) {
  const std::vector<ActivationChoice> found = Search(passes, room).all();
  if (found.empty()) return std::nullopt;
  return found[preferred(passes, found)];
}

}  // namespace dos::planner
