// SPDX-License-Identifier: Apache-2.0
#include "rt/progress.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "rt/tasks.hpp"

namespace dos::rt {
namespace {

constexpr Progress kIdle{.ready = 2, .started = 5, .ended = 5};

TEST(StallDetector, WantsReadyTasksOfWhichNoneRunsOrEnds) {
  StallDetector detector(2);
  EXPECT_FALSE(detector.has_stalled(kIdle));  // nothing to compare with
  EXPECT_FALSE(detector.has_stalled(kIdle));
  EXPECT_TRUE(detector.has_stalled(kIdle));
}

TEST(StallDetector, BeginsAnewWhenSomethingHappens) {
  for (const Progress& other : {Progress{.ready = 0, .started = 5, .ended = 5},
                                Progress{.ready = 2, .started = 6, .ended = 5},
                                Progress{.ready = 2, .started = 6, .ended = 6}}) {
    StallDetector detector(2);
    for (int look = 0; look < 2; ++look) EXPECT_FALSE(detector.has_stalled(kIdle));
    EXPECT_FALSE(detector.has_stalled(other));
    for (int look = 0; look < 2; ++look) {
      const bool is_other_count = other.ended != kIdle.ended;
      EXPECT_EQ(detector.has_stalled(kIdle), !is_other_count && look == 1);
    }
  }
}

std::atomic<bool> may_end = false;

void wait_task(const TaskView& /*task*/) {
  while (!may_end) std::this_thread::yield();
}

TEST(Progress, CountsTasks) {
  static const Codelet codelet = make_codelet<wait_task>(
      {.symbol = "dos.test_waits.v1", .modes = {Mode::kReadWrite}, .tail = {}});
  Session session({.scheduler = "", .cpu_workers = 1});
  const Handle buffer(session, {.name = "b", .count = 1});
  const std::vector<const Handle*> buffers{&buffer};
  Submitter submitter(session);
  const Progress before = progress();
  EXPECT_EQ(before.started, before.ended);
  for (int task = 0; task < 3; ++task) submitter.submit(codelet, buffers, 0, {}, {});
  while (progress().started == before.started) std::this_thread::yield();
  // The others wait for the first, which has the buffer.
  EXPECT_EQ(progress().ready, 1);
  EXPECT_EQ(progress().started - before.started, 1);
  EXPECT_EQ(progress().ended, before.ended);
  may_end = true;
  session.wait_all();
  EXPECT_EQ(progress().ready, 0);
  EXPECT_EQ(progress().ended - before.ended, 3);
}

}  // namespace
}  // namespace dos::rt
