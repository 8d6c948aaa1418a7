// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codelets/update/update.hpp"

namespace dos::bench {

/// The memory traffic of an update with next to no arithmetic: adds g to p and to each state, and
/// cuts p down to w. The same arrays and bytes as the update of that kind.
using UpdateStream = void (*)(const codelets::UpdateArrays& arrays);

/// The stream of a kind whose rule has `states` states, at least 1 and at most kMostStates. With
/// `fetches_ahead` it asks for its data ahead as the update does.
template <simd::Isa>
UpdateStream update_stream(const codelets::UpdateKind& kind, Index states, bool fetches_ahead);

}  // namespace dos::bench
