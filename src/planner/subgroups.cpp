// SPDX-License-Identifier: Apache-2.0
#include "planner/subgroups.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/common_sizes.hpp"
#include "base/error.hpp"
#include "planner/planner.hpp"
#include "sched/cut.hpp"
#include "sched/policy_registry.hpp"
#include "shape/cutter.hpp"
#include "shape/owners.hpp"

namespace dos::planner {
namespace {

/// Subgroups a CPU worker should have: the last round then costs about a sixteenth of the update.
constexpr Index kRounds = 16;
constexpr Index kSmallest = 1'000'000;
/// What a GPU should take for an update where that leaves each CPU worker kLeastRounds: StarPU's
/// tasks for it and for its part of the norm cost it some 20 us besides. What fills memory better
/// may take half of it.
constexpr units::Seconds kLeastOnGpu = units::microseconds(40);
constexpr Index kLeastRounds = 4;
constexpr Index kLargest = 100'000'000;
/// Sizes that are compared in the octave below the one that workers ask for.
constexpr double kSizesAnOctave = 8;
/// Of their room, what smaller subgroups must fill more.
constexpr double kFuller = 0.02;

}  // namespace

Index subgroup_params(const Request& request, const perfmodels::Rates& rates) {
  if (request.settings.subgroup_params > 0) return request.settings.subgroup_params;
  if (request.settings.policy.published) return kLargest;
  const Index mine = request.model.trained_params() / request.ranks;
  const Index few = ceil_div(request.model.params(), shape::kMostSubgroups / 2);
  Index least = kSmallest;
  if (!rates.gpus.empty() && sched::find_policy(request.policy).adapts) {
    const units::Params worth = rates.gpus.front().update * kLeastOnGpu;
    const double most = static_cast<double>(mine / (kLeastRounds * rates.cpu_workers));
    least = std::clamp(static_cast<Index>(std::min(worth.value(), most)), kSmallest, kLargest);
  }
  return std::max(few, std::clamp(mine / (kRounds * rates.cpu_workers), least, kLargest));
}

std::vector<sched::Subgroup> cut_for_rank(const shape::Model& model, Index ranks,
                                          Index subgroup_params) {
  require(ranks >= 1, "ranks are positive");
  const shape::Layout layout = shape::cut_into_subgroups(model.parameters, subgroup_params, {});
  const std::vector<double> weights(static_cast<std::size_t>(ranks), 1.0);
  const std::vector<Index> owners = shape::owners_of(layout, weights);
  const auto updated = [&](std::size_t i) {
    return layout.subgroups[i].trained ? layout.subgroups[i].count : 0;
  };
  std::vector<Index> owned(static_cast<std::size_t>(ranks));
  for (std::size_t i = 0; i < owners.size(); ++i)
    owned[static_cast<std::size_t>(owners[i])] += updated(i);
  const Index rank = std::ranges::max_element(owned) - owned.begin();
  std::vector<sched::Subgroup> subgroups;
  std::vector<Index> sizes;
  for (std::size_t i = 0; i < owners.size(); ++i) {
    if (owners[i] != rank || !layout.subgroups[i].trained) continue;
    subgroups.push_back({updated(i), layout.subgroups[i].depth});
    sizes.push_back(updated(i));
  }
  const std::vector<Index> rooms = common_sizes(sizes);
  for (std::size_t i = 0; i < rooms.size(); ++i) subgroups[i].room = rooms[i];
  expect(
      std::ssize(subgroups) <= sched::kMostPieces,
      "sched.subgroup_params = {}: makes {} subgroups of a rank, a plan has at most {}: raise it",
      subgroup_params, subgroups.size(), sched::kMostPieces);
  return subgroups;
}

double filled(const std::vector<sched::Subgroup>& subgroups) {
  double params = 0;
  double room = 0;
  for (const sched::Subgroup& each : subgroups) {
    params += static_cast<double>(each.params);
    room += static_cast<double>(std::max(each.params, each.room));
  }
  return params / room;
}

Index fullest_subgroups(const shape::Model& model, Index ranks, Index most) {
  std::vector<std::pair<Index, double>> sizes;
  for (int i = 0; i <= kSizesAnOctave; ++i) {
    const auto size =
        static_cast<Index>(static_cast<double>(most) * std::exp2(-i / kSizesAnOctave));
    try {
      sizes.emplace_back(size, filled(cut_for_rank(model, ranks, size)));
    } catch (const Error&) {
      break;  // smaller ones cannot be cut either; of `most` itself the forecast says why
    }
  }
  double best = 0;
  for (const auto& [size, part] : sizes) best = std::max(best, part);
  for (const auto& [size, part] : sizes)
    if (part >= best - kFuller) return size;
  return most;
}

std::vector<sched::Subgroup> cut_as_published(const shape::Model& model, Index ranks,
                                              Index subgroup_params) {
  require(ranks >= 1 && subgroup_params >= 1, "ranks and sizes are positive");
  std::vector<sched::Subgroup> subgroups;
  sched::Subgroup open;
  const auto add = [&](Index depth, Index params) {
    if (open.params == 0) open.depth = depth;
    open.params += ceil_div(params, ranks);
    if (open.params < subgroup_params) return;
    subgroups.push_back(open);
    open = {};
  };
  for (const shape::ParameterSpec& spec : model.parameters) {
    // The published code keeps queries, keys and values apart.
    const bool is_one = spec.parts.size() != 3;
    for (const Index rows : is_one ? std::vector<Index>{spec.rows} : spec.parts)
      add(spec.depth, is_one ? spec.count() : rows * spec.columns);
  }
  if (open.params > 0) subgroups.push_back(open);
  return subgroups;
}

}  // namespace dos::planner
