// SPDX-License-Identifier: Apache-2.0
#include "rt/idle_naps.hpp"

#include <gtest/gtest.h>

#include <atomic>

#include "platform/processor_time.hpp"
#include "rt/tasks.hpp"

namespace dos::rt::idle_naps_test {
namespace {

using namespace std::chrono_literals;

TEST(IdleNaps, AreAnEighthOfTheWaitAndHalfAMillisecondAtMost) {
  EXPECT_EQ(nap_after(0ns), 0ns);
  EXPECT_EQ(nap_after(399us), 0ns);
  EXPECT_EQ(nap_after(400us), 50us);
  EXPECT_EQ(nap_after(800us), 100us);
  EXPECT_EQ(nap_after(4ms), 500us);
  EXPECT_EQ(nap_after(1h), 500us);
}

// A worker that looks for a task without end takes all of the core that it gets: also on a machine
// that is busy, far more than 100 ms of 300.
TEST(IdleNaps, LeaveTheCoreToOthers) {
  Session session({.scheduler = "eager", .cpu_workers = 1});
  std::atomic<bool> ran{false};
  const test::Body body = [&](const TaskView&) { ran = true; };
  const Handle handle(session, HandleSpec{.name = "b", .count = 16});
  Submitter submitter(session);
  for (int round = 0; round < 2; ++round) {
    ran = false;
    test::submit_body(submitter, body, {&handle});
    session.wait_all();
    EXPECT_TRUE(ran);
    const double before = platform::own_processor_seconds();
    test::sleep_ms(300);
    // 600 looks of 50 us, and what a wait begins with.
    EXPECT_LT(platform::own_processor_seconds() - before, 0.100);
  }
}

}  // namespace
}  // namespace dos::rt::idle_naps_test
