// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "ranks/traffic.hpp"
#include "shape/layout.hpp"
#include "shape/owners.hpp"
#include "tensor/slots.hpp"

namespace dos::test {

/// What decides the traffic of a rank.
struct TrafficCase {
  Index zero = 1;
  Index rank = 0;
  Index ranks = 1;
  Index accumulate = 1;      ///< micro-batches a step
  Index gradient_bytes = 4;  ///< of an element on the wire
  Index parameter_bytes = 4;
};

/// How often a step sends the parameters of depths whose buffers are shared, zero = 3.
class Gatherings {
 public:
  Gatherings(const shape::Layout& layout, const tensor::Slots& slots) : slots_(slots) {
    for (const shape::Subgroup& subgroup : layout.subgroups)
      if (subgroup.trained) updated_.insert(subgroup.depth);
    first_ = layout.first_trained_depth();
  }

  /// By depth, in a step behind the first one.
  std::vector<Index> of_a_step(Index accumulate) {
    step(accumulate);
    counts_.assign(static_cast<std::size_t>(slots_.depths()), 0);
    step(accumulate);
    return counts_;
  }

 private:
  void step(Index accumulate) {
    for (Index i = 0; i < accumulate; ++i) {
      for (Index depth = 0; depth < slots_.depths(); ++depth) need(depth);
      for (Index depth = slots_.depths() - 1; depth >= first_; --depth) need(depth);
    }
    std::erase_if(resident_, [&](const auto& each) { return updated_.contains(each.second); });
  }
  void need(Index depth) {
    if (!slots_.are_shared(depth)) return;
    const auto [resident, is_new] = resident_.try_emplace(slots_.set_of(depth), depth);
    if (!is_new && std::exchange(resident->second, depth) == depth) return;
    if (!counts_.empty()) ++counts_[static_cast<std::size_t>(depth)];
  }

  const tensor::Slots& slots_;
  std::set<Index> updated_;          ///< depths
  Index first_ = 0;                  ///< depth at which backward ends
  std::map<Index, Index> resident_;  ///< depth by set of buffers
  std::vector<Index> counts_;
};

/// Bytes of gradients and parameters that a rank sends in one step, by the formulas of
/// docs/distributed.md: with P parameters that are trained, of which the rank owns O, on N ranks
///   gradients   (P - O) g      a reduction: one a step, for zero >= 2 one a micro-batch
///   parameters  O (N - 1) w    a broadcast after the update, zero < 3
/// With zero = 3 a broadcast is of the depths whose buffers are not shared; of each other depth the
/// parameters are gathered for each forward and backward pass that reaches it, frozen ones too, but
/// for the pass after the one that left them in the shared buffers.
inline ranks::Traffic expected_traffic(const shape::Layout& layout, std::span<const Index> owners,
                                       const TrafficCase& c) {
  const tensor::Slots slots(layout, shape::kSlotSets);
  const std::vector<Index> gatherings = Gatherings(layout, slots).of_a_step(c.accumulate);
  ranks::Traffic traffic;
  for (std::size_t i = 0; i < owners.size(); ++i) {
    const shape::Subgroup& subgroup = layout.subgroups[i];
    const bool is_gathered = c.zero == 3 && slots.are_shared(subgroup.depth);
    if (owners[i] != c.rank) {
      if (!subgroup.trained) continue;
      traffic[ranks::Kind::kGradient] +=
          subgroup.count * c.gradient_bytes * (c.zero >= 2 ? c.accumulate : 1);
      continue;
    }
    const Index times = is_gathered        ? gatherings[static_cast<std::size_t>(subgroup.depth)]
                        : subgroup.trained ? 1
                                           : 0;
    traffic[ranks::Kind::kParameter] += subgroup.count * c.parameter_bytes * (c.ranks - 1) * times;
  }
  return traffic;
}

}  // namespace dos::test
