// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace dos::optim {

/// Norms come before any update; updates before nothing but each other.
inline constexpr int kNormPriority = 1 << 19;
/// Of what disks wait for beside backward: before all tasks of forward and backward
/// (nn/urgency.hpp), and added to what updates have among each other.
inline constexpr int kPromptPriority = 1 << 24;

}  // namespace dos::optim
