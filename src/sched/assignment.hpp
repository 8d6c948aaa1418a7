// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "sched/workload.hpp"

namespace dos::sched {

/// Updates what is in host memory; a GPU g updates what is in tier g.
inline constexpr Index kCpu = kHost;

/// Where a subgroup's states live, and what updates them: two choices.
struct Assignment {
  Index home = kHost;   ///< tier
  Index device = kCpu;  ///< kCpu, or a GPU
  /// Of what the CPU updates: the GPU that has the gradient and receives the working parameters,
  /// -1 if none.
  Index reader = -1;
};

inline Assignment on_cpu(Index home, Index reader = -1) {
  return {.home = home, .device = kCpu, .reader = reader};
}
inline Assignment streamed_to(Index gpu, Index home = kHost) {
  return {.home = home, .device = gpu};
}
inline Assignment resident_on(Index gpu) {
  return {.home = gpu, .device = gpu};
}

inline bool is_on_cpu(const Assignment& assignment) {
  return assignment.device == kCpu;
}
/// States come to the GPU, are updated there, and go home.
inline bool is_streamed(const Assignment& assignment) {
  return !is_on_cpu(assignment) && assignment.home != assignment.device;
}
/// States stay on the GPU.
inline bool is_resident(const Assignment& assignment) {
  return !is_on_cpu(assignment) && assignment.home == assignment.device;
}

/// What an update of a parameter moves over the link of a tier.
struct LinkTraffic {
  Index tier;
  units::BytesPerParam in;   ///< to the tier
  units::BytesPerParam out;  ///< from it
};

/// By link, home's before the device's: all links lead to host memory, so the route of states
/// between home and device is the links of both, there and back. Gradients and working parameters
/// go over the device's link, or the reader's.
std::vector<LinkTraffic> traffic_of(const UpdateCost& cost, const Assignment& assignment);

}  // namespace dos::sched
