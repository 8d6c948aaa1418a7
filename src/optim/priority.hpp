// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace dos::optim {

/// Norms come before any update; updates before nothing but each other.
inline constexpr int kNormPriority = 1 << 19;
/// Before all tasks of forward and backward (nn/urgency.hpp): of sums of squares that updates
/// beside backward wait for; and added to what updates have among each other, of those that a disk
/// waits for where CPUs compute.
inline constexpr int kPromptPriority = 1 << 24;

}  // namespace dos::optim
