// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <condition_variable>
#include <map>
#include <mutex>
#include <span>
#include <vector>

#include "base/types.hpp"

struct starpu_task;

namespace dos::rt {

class Codelet;

/// The parts of a training step.
enum class Phase { kInit, kForward, kBackward, kReduce, kUpdate, kValidation };
inline constexpr std::array kPhases{Phase::kInit,   Phase::kForward, Phase::kBackward,
                                    Phase::kReduce, Phase::kUpdate,  Phase::kValidation};

const char* name_of(Phase phase);

/// What a task belongs to. Step numbers are the caller's.
struct TaskTag {
  Phase phase = Phase::kInit;
  Index step = 0;
  Index micro_batch = -1;  ///< of the step, -1: of none
};

/// One executed task; times in microseconds of StarPU's clock.
struct TaskRecord {
  const Codelet* codelet = nullptr;
  const char* label =
      "";  ///< what the task worked on, e.g. a tensor's name; owned by the submitter
  TaskTag tag;
  int worker = -1;
  double start_us = 0;
  double end_us = 0;
};

/// Milliseconds during which at least one of the records of `phase` was executing (union of
/// intervals).
double busy_ms(std::span<const TaskRecord> records, Phase phase);

/// Collects the records of the tasks, step by step, and tells when a step is complete. Thread-safe.
class Profile {
 public:
  /// One more task of tag.step will complete. Called by the submitting thread before submission.
  void expect_task(const TaskTag& tag);
  /// A task announced for tag.step will not come.
  void cancel_task(const TaskTag& tag);
  /// Called by workers.
  void complete_task(const TaskRecord& record);

  /// Blocks until every task announced for `step` is complete, then removes and returns the step's
  /// records in order of completion. Call when all of the step's tasks are submitted.
  std::vector<TaskRecord> take(Index step);

 private:
  struct Step {
    Index outstanding = 0;
    std::vector<TaskRecord> records;
  };
  std::mutex mutex_;
  std::condition_variable step_complete_;
  std::map<Index, Step> steps_;
};

}  // namespace dos::rt
