// SPDX-License-Identifier: Apache-2.0
#include "ranks/traffic.hpp"

#include <algorithm>

#include "tensor/slots.hpp"

namespace dos::ranks {
namespace {

/// How often a step sends a depth's parameters, zero = 3.
Index gatherings(const tensor::Slots& slots, Index depth, Index accumulate) {
  const tensor::Slots::Neighbours around = slots.neighbours(depth);
  Index count = 1;
  if (around.later >= tensor::kSlotSets) count += accumulate;
  if (around.earlier >= tensor::kSlotSets) count += accumulate - 1;
  return count;
}

}  // namespace

Traffic expected_traffic(const shape::Layout& layout, std::span<const Index> owners,
                         const TrafficCase& c) {
  const tensor::Slots slots(layout, tensor::kSlotSets);
  Traffic traffic;
  for (std::size_t i = 0; i < owners.size(); ++i) {
    const shape::Subgroup& subgroup = layout.subgroups[i];
    if (owners[i] != c.rank) {
      traffic[Kind::kGradient] +=
          subgroup.count * c.gradient_bytes * (c.zero >= 2 ? c.accumulate : 1);
      continue;
    }
    const bool is_gathered = c.zero == 3 && slots.are_shared(subgroup.depth);
    traffic[Kind::kParameter] +=
        subgroup.count * c.parameter_bytes * (c.ranks - 1) *
        (is_gathered ? gatherings(slots, subgroup.depth, c.accumulate) : 1);
  }
  return traffic;
}

}  // namespace dos::ranks
