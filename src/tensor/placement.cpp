// SPDX-License-Identifier: Apache-2.0
#include "tensor/placement.hpp"

#include <numeric>
#include <set>

namespace dos::tensor {
namespace {

Buffers none(const Layout& layout) {
  return Buffers(layout.subgroups.size(), kNoBuffer);
}

Buffers all(const Layout& layout) {
  Buffers buffers = none(layout);
  std::iota(buffers.begin(), buffers.end(), Index{0});
  return buffers;
}

Buffers owned(const Layout& layout, const Placement& placement) {
  Buffers buffers = all(layout);
  for (Index& buffer : buffers)
    if (!placement.owns(buffer)) buffer = kNoBuffer;
  return buffers;
}

/// Slots behind the numbers of buffers of subgroups' own: a slot named after a subgroup that is
/// owned is not that subgroup's own buffer.
Buffers slots(const Layout& layout) {
  const Slots slots(layout, kSlotSets);
  Buffers buffers = all(layout);
  for (Index& buffer : buffers) buffer = std::ssize(buffers) + slots.slot_of(buffer);
  return buffers;
}

Buffers owned_and_slots(const Layout& layout, const Placement& placement) {
  Buffers buffers = slots(layout);
  for (Index i = 0; i < std::ssize(buffers); ++i)
    if (placement.owns(i)) buffers[static_cast<std::size_t>(i)] = i;
  return buffers;
}

}  // namespace

BufferPlan::BufferPlan(const Layout& layout, const ParameterTypes& types,
                       const Placement& placement)
    : values(all(layout)),
      working(none(layout)),
      gradients(placement.zero >= 2 ? slots(layout) : all(layout)),
      sums(none(layout)),
      states(owned(layout, placement)) {
  const Buffers forward = placement.zero == 3 ? owned_and_slots(layout, placement) : all(layout);
  if (types.working == DType::kF32) {
    values = forward;
  } else {
    values = owned(layout, placement);
    working = forward;
  }
  const bool adds_in_place = placement.zero == 1 && types.gradient == DType::kF32;
  if (placement.zero > 0 && !adds_in_place) sums = owned(layout, placement);
}

Index element_count(const Layout& layout, const Buffers& buffers) {
  std::set<Index> seen{kNoBuffer};
  Index count = 0;
  for (std::size_t i = 0; i < buffers.size(); ++i)
    if (seen.insert(buffers[i]).second) count += layout.subgroups[i].count;
  return count;
}

}  // namespace dos::tensor
