// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "sched/replay.hpp"

namespace dos::test {

/// What can do one thing at a time.
inline std::string resource_of(const sched::Problem& problem, const sched::Activity& each) {
  if (each.work == sched::Work::kCpuUpdate) return "worker " + std::to_string(each.worker);
  return track_of(problem, each);
}

inline void expect_no_overlap(const sched::Problem& problem, const sched::Replay& replay) {
  std::map<std::string, std::vector<sched::Activity>> lanes;
  for (const sched::Activity& each : replay.activities)
    lanes[resource_of(problem, each)].push_back(each);
  for (auto& [name, lane] : lanes) {
    std::sort(lane.begin(), lane.end(),
              [](const sched::Activity& a, const sched::Activity& b) { return a.start < b.start; });
    for (std::size_t i = 1; i < lane.size(); ++i)
      ASSERT_LE(lane[i - 1].end.value(), lane[i].start.value() * (1 + 1e-12)) << name;
  }
}

}  // namespace dos::test
