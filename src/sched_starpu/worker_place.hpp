// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/quantity.hpp"
#include "sched/plan.hpp"

namespace dos::sched_starpu {

/// Where an update runs: the CPU workers together, or a GPU.
struct Device {
  Index gpu = -1;  ///< -1: the CPU
  [[nodiscard]] bool is_cpu() const { return gpu < 0; }
  /// Its place in what is kept by device: the CPU first.
  [[nodiscard]] std::size_t number() const { return static_cast<std::size_t>(gpu + 1); }
  bool operator==(const Device&) const = default;
};

/// How an update uses the memory of the GPU that runs it.
enum class Stay : std::uint8_t {
  kStreams,   ///< its states come and go
  kArrives,   ///< they come to stay
  kResident,  ///< they are there
};

/// Where an update goes.
struct Place {
  Device device;
  bool is_resident = false;  ///< whether its states stay on the GPU
  bool arrives = false;      ///< a resident whose states are still elsewhere

  /// The GPU on which its states are after the update, -1 when they go back.
  [[nodiscard]] Index stays_on() const { return is_resident ? device.gpu : -1; }
};

/// What the streamed updates of a step may newly take of the memory of a GPU.
struct UpdateRoom {
  units::Bytes streaming{0};  ///< of those that are there at once
  /// Streamed ones allocate one size: memory of one is the next's. The others take no more in all.
  bool is_even = true;
};

/// Why the scheduler lets an update run elsewhere than planned.
enum class MoveReason : std::uint8_t {
  kOverdue,  ///< an idle device took it from one that is overdue
  kSooner,   ///< beside backward: where it ends first
};

/// What a plan says of a subgroup. The module reads assignments here and nowhere else.
inline Place place_of(const sched::Assignment& assignment) {
  if (sched::is_on_cpu(assignment)) return {};
  return {.device = {.gpu = assignment.device}, .is_resident = sched::is_resident(assignment)};
}

inline units::Params params_of(Index count) {
  return units::Params(static_cast<double>(count));
}

}  // namespace dos::sched_starpu
