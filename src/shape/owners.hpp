// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/types.hpp"
#include "shape/layout.hpp"

namespace dos::shape {

/// Sets of buffers that depths take in turn for what other ranks own: while one is computed with,
/// the other is filled.
inline constexpr Index kSlotSets = 2;
/// Gradients of other ranks that a rank may have at once, each with room for its largest subgroup:
/// one is added while others arrive.
inline constexpr Index kReceiveBuffers = 4;

/// The owner rank of every subgroup: the largest subgroups first, each to the rank that would be
/// done with it first, of those to the lowest. `weights` has one positive number a rank: how fast
/// it updates beside the others. So parameters / weight differ by at most the largest subgroup /
/// weight. A pure function: every rank computes it for itself. More ranks than subgroups leave
/// ranks without any.
std::vector<Index> assign_owners(std::span<const Index> counts, std::span<const double> weights);

/// The owners of a layout's subgroups: first those of what is trained, as above, then those of what
/// is frozen, by themselves, for its memory.
std::vector<Index> owners_of(const Layout& layout, std::span<const double> weights);

/// "1,1,0.5" as one weight a rank; "" is 1 for each. Throws Error naming `key` for another number
/// of weights, or one that is not positive.
std::vector<double> parse_weights(const std::string& key, const std::string& text, Index ranks);

}  // namespace dos::shape
