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

/// What a step did.
struct StepReport {
  Index step = 0;  ///< counted from 1
  units::Params planned_gpu{};
  units::Params executed_gpu{};
  units::Params total{};
  Index updates = 0;  ///< that have run
  Index moved = 0;    ///< of those, elsewhere than planned
  // Of those, by MoveReason; the others cannot run where they were planned.
  Index overdue = 0;
  Index sooner = 0;
  units::Params to_cpu{};  ///< of those: planned for GPUs, run by the CPU
  units::Params to_gpu{};  ///< planned for the CPU, run by GPUs
  /// Gradients of the CPU's updates that started their way to host memory as soon as backward had
  /// written them, and what the CPU's updates waited for data, on average over its workers.
  units::Bytes flushed{};
  units::Seconds waited{};
  /// By GPU: what the updates that have run had to move: what the plan says, but for those that
  /// were moved. States that come or leave for good are included.
  std::vector<Traffic> needed{};
};

/// What a device did: the CPU workers together, or a GPU.
struct DeviceReport {
  std::string name{};
  Index workers = 0;
  std::optional<units::ParamsPerSecond> rate{};  ///< of updates on one worker
  bool rate_is_measured = false;                 ///< else a performance model says so
  WorkerTimes times{};                           ///< sum over its workers
  // Of a GPU's link:
  units::BytesPerSecond h2d{};  ///< as the runtime measured it
  units::BytesPerSecond d2h{};
  sched::StateMemory memory{};  ///< of a GPU, as plans have it
  std::optional<Traffic>
      moved{};  ///< by all tasks so far; nothing where the runtime does not count
};

inline constexpr Index kReportedSteps = 5;

/// What the updates of a program did under a policy.
struct Report {
  std::string plan;                   ///< in words; empty before there is one
  std::string reason;                 ///< why the plan looks like this
  std::string obstacle;               ///< why there is no plan: the updates stay on the CPU
  std::vector<StepReport> steps;      ///< the last that are over, at most kReportedSteps
  StepReport all;                     ///< the sum over all steps; its step is their number
  std::vector<DeviceReport> devices;  ///< the CPU first
};

}  // namespace dos::sched_starpu
