// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/types.hpp"

namespace dos::perfmodels {

/// What a step and a checkpoint take, in seconds; of several ranks the most.
struct CheckpointCosts {
  double step_s = 0;
  double write_s = 0;   ///< of writing and committing a checkpoint
  double waited_s = 0;  ///< for which it kept updates from starting
  double slowed_s = 0;  ///< by which steps beside it took longer, waits included; 0: or unknown
};

/// What keeps checkpoints from being more frequent.
enum class IntervalLimit {
  kNone,    ///< nothing: one every step
  kDevice,  ///< it writes no faster
  kWaits,   ///< of updates: failures cost less than more of them
  kSlowed,  ///< likewise, what steps beside checkpoints take longer
};

/// Steps between two checkpoints, and what decided.
struct CheckpointInterval {
  Index steps = 1;
  IntervalLimit limit = IntervalLimit::kNone;
};

/// The part of the time that a device spends on checkpoints at most: the rest is for what varies.
inline constexpr double kMostDeviceTime = 0.8;

/// As often as the device can write, N t >= w / kMostDeviceTime, but not more often than pays:
/// a checkpoint that costs c is taken every sqrt(2 c M) seconds, with M seconds between failures
/// (J. W. Young, A first order approximation to the optimum checkpoint interval, CACM 17, 1974).
/// c is the larger of waited_s and slowed_s.
/// Pre: step_s and mtbf_s are positive.
CheckpointInterval choose_interval(const CheckpointCosts& costs, double mtbf_s);

}  // namespace dos::perfmodels
