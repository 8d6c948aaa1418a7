// SPDX-License-Identifier: Apache-2.0
#include "tensor/ownership.hpp"

#include <numeric>
#include <set>
#include <utility>

#include "shape/owners.hpp"

namespace dos::tensor {
namespace {

Buffers none(const shape::Layout& layout) {
  return Buffers(layout.subgroups.size(), kNoBuffer);
}

Buffers all(const shape::Layout& layout) {
  Buffers buffers = none(layout);
  std::iota(buffers.begin(), buffers.end(), Index{0});
  return buffers;
}

/// The same buffers for what is trained, none for what is frozen.
Buffers trained(const shape::Layout& layout, Buffers buffers) {
  for (std::size_t i = 0; i < buffers.size(); ++i)
    if (!layout.subgroups[i].trained) buffers[i] = kNoBuffer;
  return buffers;
}

Buffers owned(const shape::Layout& layout, const Ownership& ownership) {
  Buffers buffers = all(layout);
  for (Index& buffer : buffers)
    if (!ownership.owns(buffer)) buffer = kNoBuffer;
  return buffers;
}

/// Slots behind the numbers of buffers of subgroups' own: a slot named after a subgroup that is
/// owned is not that subgroup's own buffer.
Buffers slots(const shape::Layout& layout) {
  const Slots slots(layout, shape::kSlotSets);
  Buffers buffers = all(layout);
  for (Index& buffer : buffers) buffer = std::ssize(buffers) + slots.slot_of(buffer);
  return buffers;
}

Buffers owned_and_slots(const shape::Layout& layout, const Ownership& ownership) {
  Buffers buffers = slots(layout);
  for (Index i = 0; i < std::ssize(buffers); ++i)
    if (ownership.owns(i)) buffers[static_cast<std::size_t>(i)] = i;
  return buffers;
}

}  // namespace

BufferPlan::BufferPlan(const shape::Layout& layout, const ParameterTypes& types,
                       const Ownership& ownership)
    : values(all(layout)),
      working(none(layout)),
      gradients(trained(layout, ownership.zero >= 2 ? slots(layout) : all(layout))),
      sums(none(layout)),
      states(trained(layout, owned(layout, ownership))) {
  const Buffers forward = ownership.zero == 3 ? owned_and_slots(layout, ownership) : all(layout);
  if (types.working == DType::kF32) {
    values = forward;
  } else {
    values = states;
    working = forward;
  }
  const bool adds_in_place = ownership.zero == 1 && types.gradient == DType::kF32;
  if (ownership.zero > 0 && !adds_in_place) sums = states;
}

Index element_count(const shape::Layout& layout, const Buffers& buffers) {
  std::set<Index> seen{kNoBuffer};
  Index count = 0;
  for (std::size_t i = 0; i < buffers.size(); ++i)
    if (seen.insert(buffers[i]).second) count += layout.subgroups[i].count;
  return count;
}

}  // namespace dos::tensor
