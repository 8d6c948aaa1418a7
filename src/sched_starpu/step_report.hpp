// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/quantity.hpp"
#include "base/types.hpp"
#include "sched/workload.hpp"
#include "sched_starpu/worker_clock.hpp"

namespace dos::sched_starpu {

/// Bytes over the link of a GPU.
struct Traffic {
  units::Bytes in;   ///< to the GPU
  units::Bytes out;  ///< to host memory
};

/// What the updates of a step did.
struct StepReport {
  Index step = 0;  ///< counted from 1
  // Parameters of updates: placed on GPUs, run by GPUs, of all.
  units::Params planned_gpu{};
  units::Params executed_gpu{};
  units::Params total{};
  Index updates = 0;  ///< that have run
  Index moved = 0;    ///< of those, elsewhere than placed
  // Of those, by MoveReason; the others cannot run where they were placed.
  Index overdue = 0;
  Index sooner = 0;
  units::Params to_cpu{};   ///< of those: placed on GPUs, run by the CPU
  units::Params to_gpu{};   ///< placed on the CPU, run by GPUs
  units::Bytes flushed{};   ///< gradients sent to the CPU as soon as backward had written them
  units::Seconds waited{};  ///< of the CPU's updates for data, mean over its workers
  /// By GPU: what the updates that have run had to move, states that came or left for good too.
  std::vector<Traffic> needed{};

  /// The sum, with the step of the later one.
  StepReport& operator+=(const StepReport& later);
};

/// What a device did: the CPU workers together, or a GPU.
struct DeviceReport {
  std::string name{};
  Index workers = 0;
  std::optional<units::ParamsPerSecond> rate{};  ///< of updates on one worker
  bool rate_is_measured = false;                 ///< else a performance model says so
  WorkerTimes times{};                           ///< sum over its workers
  // Of a GPU:
  units::BytesPerSecond h2d{};  ///< its link, as the runtime measured it
  units::BytesPerSecond d2h{};
  sched::StateMemory memory{};     ///< as plans have it, beside no gradients
  std::optional<Traffic> moved{};  ///< by all tasks so far; nothing where nobody counts
};

/// Plans that were made once rates were known.
struct PlansMade {
  Index ahead = 0;           ///< while no update waited
  Index waited_for = 0;      ///< while those of the step did
  units::Seconds waited{0};  ///< of the latter, in all
};

/// What the updates of a program did under a policy.
struct UpdatesReport {
  std::string plan;      ///< in words; empty before there is one
  std::string reason;    ///< why the plan looks like this
  std::string obstacle;  ///< why there is no plan: the updates stay on the CPU
  PlansMade plans;
  std::vector<StepReport> steps;      ///< the last that are over, at most Tuning::reported_steps
  StepReport all;                     ///< the sum over all steps; its step is their number
  std::vector<DeviceReport> devices;  ///< the CPU first
};

}  // namespace dos::sched_starpu
