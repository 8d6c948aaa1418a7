// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codelets/update/update.hpp"

namespace dos::codelets {

/// The memory traffic of an update with next to no arithmetic: adds g to p and to each state, and
/// cuts p down to w. The same arrays and bytes as the update of that kind: what memory allows for
/// it.
using UpdateStream = void (*)(const UpdateArrays& arrays);

/// The stream of a kind whose rule has `states` states, at least 1 and at most kMostStates. With
/// `fetches_ahead` it asks for its data ahead as the update does.
template <simd::Isa>
UpdateStream update_stream(const UpdateKind& kind, Index states, bool fetches_ahead);

}  // namespace dos::codelets
