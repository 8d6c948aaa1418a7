// SPDX-License-Identifier: Apache-2.0
#include "rt/progress.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "rt/tasks.hpp"

namespace dos::rt::progress_test {
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

// States on a disk that hangs.
TEST(StallDetector, LetsTransfersEnd) {
  StallDetector detector(2);
  constexpr Progress kReads{.ready = 2, .started = 5, .ended = 5, .transfers = 1};
  for (int look = 0; look < 9; ++look) EXPECT_FALSE(detector.has_stalled(kReads));
  EXPECT_FALSE(detector.has_stalled(kIdle));
  EXPECT_TRUE(detector.has_stalled(kIdle));
}

/// No task is ready: all that is to come waits for an access to a device's memory.
Progress with_accesses(DeviceAccesses accesses) {
  return {.ready = 0, .started = 5, .ended = 5, .accesses = accesses};
}

bool stalls(StallDetector& detector, const Progress& now, int looks) {
  bool stalled = false;
  for (int look = 0; look < looks; ++look) stalled = detector.has_stalled(now);
  return stalled;
}

TEST(StallDetector, TakesAccessesThatWaitForMemoryForWork) {
  StallDetector detector(2);
  const Progress waits = with_accesses({.due = 4, .granted = 3, .ended = 3});
  EXPECT_FALSE(stalls(detector, waits, 2));
  EXPECT_TRUE(detector.has_stalled(waits));
}

// An access that waits for a task or another rank is not due; one that is held may be a message of
// a rank that takes long, and gives its memory back.
TEST(StallDetector, DoesNotTakeWaitingForOthersForAStall) {
  for (const DeviceAccesses accesses : {DeviceAccesses{.due = 3, .granted = 3, .ended = 3},
                                        DeviceAccesses{.due = 3, .granted = 3, .ended = 2},
                                        DeviceAccesses{.due = 4, .granted = 3, .ended = 2}}) {
    StallDetector detector(2);
    EXPECT_FALSE(stalls(detector, with_accesses(accesses), 10));
  }
}

TEST(StallDetector, BeginsAnewWhenAnAccessGetsOn) {
  StallDetector detector(2);
  EXPECT_FALSE(stalls(detector, with_accesses({.due = 4, .granted = 2, .ended = 2}), 2));
  const Progress later = with_accesses({.due = 4, .granted = 3, .ended = 3});
  EXPECT_FALSE(stalls(detector, later, 2));
  EXPECT_TRUE(detector.has_stalled(later));
}

// Held memory excuses accesses only: a task that is ready may be what the other rank waits for.
TEST(StallDetector, SeesReadyTasksThatStandStillBesideHeldAccesses) {
  StallDetector detector(2);
  Progress now = kIdle;
  now.accesses = {.due = 3, .granted = 3, .ended = 2};
  EXPECT_FALSE(stalls(detector, now, 2));
  EXPECT_TRUE(detector.has_stalled(now));
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
}  // namespace dos::rt::progress_test
