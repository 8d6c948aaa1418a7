// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <atomic>

#include "rt/tasks.hpp"

namespace dos::rt::host_access_test {
namespace {

const SessionConfig kTwoWorkers{.scheduler = "", .cpu_workers = 2};

TEST(HostAccess, SeesWhatATaskWroteAndTheOtherWayRound) {
  Session session(kTwoWorkers);
  const Handle handle(session, {.name = "b", .count = 3});
  const test::Body triple = [](const TaskView& task) {
    for (Index i = 0; i < task.count(0); ++i) task.pointer<float>(0)[i] *= 3;
  };
  Submitter submitter(session);
  {
    const HostAccess access(handle, Mode::kWrite);
    for (float& value : access.as<float>()) value = 2;
  }
  test::submit_body(submitter, triple, {&handle});
  const HostAccess access(handle, Mode::kRead);
  for (const float value : access.as<const float>()) EXPECT_EQ(value, 6);
}

TEST(HostAccess, WaitsForTheTasksSubmittedBefore) {
  Session session(kTwoWorkers);
  const Handle handle(session, {.name = "b", .type = DType::kI32, .count = 1});
  const test::Body slow = [](const TaskView& task) {
    test::sleep_ms(10);
    ++*task.pointer<std::int32_t>(0);
  };
  Submitter submitter(session);
  for (int i = 0; i < 5; ++i) test::submit_body(submitter, slow, {&handle});
  const HostAccess access(handle, Mode::kRead);
  EXPECT_EQ(access.as<std::int32_t>()[0], 5);
}

TEST(HostAccess, HoldsLaterTasksBackUntilItEnds) {
  Session session(kTwoWorkers);
  const Handle handle(session, {.name = "b", .type = DType::kI32, .count = 1});
  std::atomic<bool> ran{false};
  const test::Body note = [&](const TaskView& task) {
    EXPECT_EQ(*task.pointer<std::int32_t>(0), 7);
    ran = true;
  };
  Submitter submitter(session);
  {
    const HostAccess access(handle, Mode::kReadWrite);
    test::submit_body(submitter, note, {&handle});
    test::sleep_ms(30);
    EXPECT_FALSE(ran);
    access.as<std::int32_t>()[0] = 7;
  }
  session.wait_all();
  EXPECT_TRUE(ran);
}

TEST(HostAccess, LetsReadersRunBesideARead) {
  Session session(kTwoWorkers);
  const Handle handle(session, {.name = "b", .count = 1});
  std::atomic<bool> ran{false};
  const test::Body note = [&](const TaskView&) { ran = true; };
  Submitter submitter(session);
  {
    const HostAccess access(handle, Mode::kRead);
    test::submit_body(submitter, note, {&handle}, {}, test::reading_body_codelet());
    EXPECT_TRUE(test::eventually([&] { return ran.load(); }));
  }
  session.wait_all();
}

TEST(HostAccess, DemandsAnElementTypeOfTheRightSize) {
  Session session(kTwoWorkers);
  const Handle handle(session, {.name = "b", .type = DType::kF32, .count = 4});
  const HostAccess access(handle, Mode::kRead);
  EXPECT_THROW(static_cast<void>(access.as<double>()), ContractViolation);
  EXPECT_THROW(static_cast<void>(access.as<std::uint8_t>()), ContractViolation);
  EXPECT_EQ(access.as<std::int32_t>().size(), 4U);
}

}  // namespace
}  // namespace dos::rt::host_access_test
