// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <starpu.h>

#include <algorithm>
#include <atomic>
#include <limits>

#include "rt/tasks.hpp"

namespace dos::rt::priority_test {
namespace {

using ::testing::ElementsAre;

constexpr int kLowest = std::numeric_limits<int>::min();
constexpr int kHighest = std::numeric_limits<int>::max();

/// The priority that StarPU gives a task submitted with `priority`.
int received_priority(Session& session, int priority) {
  const Handle buffer(session, {.name = "b", .count = 1});
  int received = 0;
  const test::Body note = [&](const TaskView&) { received = starpu_task_get_current()->priority; };
  Submitter submitter(session);
  test::submit_body(submitter, note, {&buffer}, {.priority = priority});
  session.wait_all();
  return received;
}

TEST(Priority, IsClampedToWhatTheSchedulerSupports) {
  for (const char* scheduler : {"eager", "lws", "prio", "dmdas"}) {
    SCOPED_TRACE(scheduler);
    Session session({.scheduler = scheduler, .cpu_workers = 1});
    const int least = starpu_sched_get_min_priority();
    const int most = starpu_sched_get_max_priority();
    for (const int wanted : {kLowest, -1, 0, 1, kHighest}) {
      EXPECT_EQ(received_priority(session, wanted), std::clamp(wanted, least, most)) << wanted;
    }
  }
}

// A task that waits keeps the only worker busy until all others are submitted.
TEST(Priority, LargerRunsEarlier) {
  Session session({.scheduler = "prio", .cpu_workers = 1});
  const Handle gate(session, {.name = "gate", .count = 1});
  std::atomic<bool> waiting{false};
  std::atomic<bool> open{false};
  std::vector<int> order;
  const test::Body wait = [&](const TaskView&) {
    waiting = true;
    EXPECT_TRUE(test::eventually([&] { return open.load(); }));
  };
  const test::Body note = [&](const TaskView&) {
    order.push_back(starpu_task_get_current()->priority);
  };
  std::vector<std::unique_ptr<Handle>> buffers;
  Submitter submitter(session);
  test::submit_body(submitter, wait, {&gate});
  ASSERT_TRUE(test::eventually([&] { return waiting.load(); }));
  for (const int priority : {0, 3, -2, 5}) {
    buffers.push_back(std::make_unique<Handle>(session, HandleSpec{.name = "b", .count = 1}));
    test::submit_body(submitter, note, {buffers.back().get()}, {.priority = priority});
  }
  open = true;
  session.wait_all();
  EXPECT_THAT(order, ElementsAre(5, 3, 0, -2));
}

}  // namespace
}  // namespace dos::rt::priority_test
