// SPDX-License-Identifier: Apache-2.0
#include "rt/profile.hpp"

#include <algorithm>
#include <utility>

namespace dos::rt {

const char* name_of(Phase phase) {
  switch (phase) {
    case Phase::kInit:
      return "init";
    case Phase::kForward:
      return "forward";
    case Phase::kBackward:
      return "backward";
    case Phase::kReduce:
      return "reduce";
    case Phase::kUpdate:
      return "update";
    case Phase::kValidation:
      return "validation";
  }
  return "?";
}

double busy_ms(std::span<const TaskRecord> records, Phase phase) {
  std::vector<std::pair<double, double>> intervals;
  for (const TaskRecord& record : records)
    if (record.tag.phase == phase) intervals.emplace_back(record.start_us, record.end_us);
  std::sort(intervals.begin(), intervals.end());
  double busy_us = 0;
  double covered_until = 0;
  for (const auto& [start, end] : intervals) {
    busy_us += std::max(0.0, end - std::max(start, covered_until));
    covered_until = std::max(covered_until, end);
  }
  return busy_us / 1e3;
}

void Profile::expect_task(const TaskTag& tag) {
  const std::lock_guard lock(mutex_);
  ++steps_[tag.step].outstanding;
}

void Profile::cancel_task(const TaskTag& tag) {
  const std::lock_guard lock(mutex_);
  if (--steps_[tag.step].outstanding == 0) step_complete_.notify_all();
}

void Profile::complete_task(const TaskRecord& record) {
  const std::lock_guard lock(mutex_);
  Step& step = steps_[record.tag.step];
  step.records.push_back(record);
  if (--step.outstanding == 0) step_complete_.notify_all();
}

std::vector<TaskRecord> Profile::take(Index step) {
  std::unique_lock lock(mutex_);
  step_complete_.wait(lock, [&] { return steps_[step].outstanding == 0; });
  std::vector<TaskRecord> records = std::move(steps_[step].records);
  steps_.erase(step);
  return records;
}

}  // namespace dos::rt
