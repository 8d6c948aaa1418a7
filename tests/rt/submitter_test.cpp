// SPDX-License-Identifier: Apache-2.0
#include "rt/submitter.hpp"

#include <gmock/gmock.h>
#include <starpu.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>
#include <thread>

#include "rt/runtime_memory.hpp"
#include "rt/tasks.hpp"

namespace dos::rt::submitter_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const SessionConfig kTwoWorkers{.scheduler = "", .cpu_workers = 2};

std::vector<std::unique_ptr<Handle>> make_handles(Session& session, Index number, Index count) {
  std::vector<std::unique_ptr<Handle>> handles;
  for (Index i = 0; i < number; ++i) {
    handles.push_back(std::make_unique<Handle>(
        session, HandleSpec{.name = "b", .type = DType::kI32, .count = count}));
  }
  return handles;
}

std::vector<const Handle*> addresses(const std::vector<std::unique_ptr<Handle>>& handles) {
  std::vector<const Handle*> result;
  for (const auto& handle : handles) result.push_back(handle.get());
  return result;
}

/// Buffer 0 is a log: the number of entries, then the entries.
void append_argument(const TaskView& task) {
  auto* entries = task.pointer<std::int32_t>(0);
  entries[++entries[0]] = task.args<std::int32_t>();
}

TEST(Submitter, ChainOfUpdatesRunsInSubmissionOrder) {
  constexpr std::int32_t kTasks = 1000;
  Session session(kTwoWorkers);
  const Handle log(session, {.name = "log", .type = DType::kI32, .count = kTasks + 1});
  static const Codelet append = make_codelet<append_argument>(
      {.symbol = "dos.test_append.v1", .modes = {Mode::kReadWrite}, .tail = {}});
  const std::vector<const Handle*> buffers{&log};
  Submitter submitter(session);
  for (std::int32_t i = 0; i < kTasks; ++i) submitter.submit(append, buffers, i, {}, {});
  const HostAccess access(log, Mode::kRead);
  const auto entries = access.as<std::int32_t>();
  EXPECT_EQ(entries[0], kTasks);
  for (std::int32_t i = 0; i < kTasks; ++i) ASSERT_EQ(entries[static_cast<std::size_t>(i) + 1], i);
}

void write_argument(const TaskView& task) {
  *task.pointer<std::int32_t>(0) = task.args<std::int32_t>();
}

// Every reader must see the value of the writer before it, never of the one after it.
TEST(Submitter, ReadersRunBetweenTheWritersAroundThem) {
  constexpr std::int32_t kRounds = 200;
  Session session(kTwoWorkers);
  const Handle value(session, {.name = "value", .type = DType::kI32, .count = 1});
  std::atomic<int> wrong{0};
  std::atomic<int> reads{0};
  static const Codelet write = make_codelet<write_argument>(
      {.symbol = "dos.test_set.v1", .modes = {Mode::kWrite}, .tail = {}});
  std::vector<test::Body> readers;
  for (std::int32_t i = 0; i < kRounds; ++i) {
    readers.emplace_back([&, i](const TaskView& task) {
      if (*task.pointer<const std::int32_t>(0) != i) ++wrong;
      ++reads;
    });
  }
  const std::vector<const Handle*> buffers{&value};
  Submitter submitter(session);
  for (std::int32_t i = 0; i < kRounds; ++i) {
    submitter.submit(write, buffers, i, {}, {});
    for (int r = 0; r < 2; ++r) {
      test::submit_body(submitter, readers[static_cast<std::size_t>(i)], buffers, {},
                        test::reading_body_codelet());
    }
  }
  session.wait_all();
  EXPECT_EQ(reads, 2 * kRounds);
  EXPECT_EQ(wrong, 0);
}

// Counts on both sides of STARPU_NMAXBUFS. The sums are not atomic: lost updates would show.
TEST(Submitter, TakesAnyNumberOfTailBuffers) {
  constexpr int kTasks = 50;
  Session session(kTwoWorkers);
  for (const Index number : {1, STARPU_NMAXBUFS - 1, STARPU_NMAXBUFS, STARPU_NMAXBUFS + 1, 40}) {
    SCOPED_TRACE(number);
    const auto handles = make_handles(session, number, 3);
    const test::Body add_index = [number](const TaskView& task) {
      EXPECT_EQ(task.buffer_count(), number);
      for (Index b = 0; b < number; ++b) {
        EXPECT_EQ(task.count(b), 3);
        for (int i = 0; i < 3; ++i)
          task.pointer<std::int32_t>(b)[i] += static_cast<std::int32_t>(b);
      }
    };
    Submitter submitter(session);
    for (int i = 0; i < kTasks; ++i) test::submit_body(submitter, add_index, addresses(handles));
    for (Index b = 0; b < number; ++b) {
      const HostAccess access(*handles[static_cast<std::size_t>(b)], Mode::kRead);
      EXPECT_THAT(access.as<std::int32_t>(), ::testing::Each(kTasks * b));
    }
  }
}

void do_nothing(const TaskView& /*task*/) {}

TEST(Submitter, DemandsTheBuffersOfTheCodelet) {
  static const Codelet two = make_codelet<do_nothing>(
      {.symbol = "dos.test_two.v1", .modes = {Mode::kRead, Mode::kWrite}, .tail = {}});
  static const Codelet two_and_more =
      make_codelet<do_nothing>({.symbol = "dos.test_two_more.v1",
                                .modes = {Mode::kRead, Mode::kWrite},
                                .tail = Mode::kRead});
  Session session(kTwoWorkers);
  const auto handles = make_handles(session, 3, 1);
  const std::vector<const Handle*> all = addresses(handles);
  const std::span<const Handle* const> three(all);
  Submitter submitter(session);
  EXPECT_THROW(submitter.submit(two, three.first(1), 0, {}, {}), ContractViolation);
  EXPECT_THROW(submitter.submit(two, three, 0, {}, {}), ContractViolation);
  EXPECT_THROW(submitter.submit(two_and_more, three.first(1), 0, {}, {}), ContractViolation);
  EXPECT_NO_THROW(submitter.submit(two, three.first(2), 0, {}, {}));
  EXPECT_NO_THROW(submitter.submit(two_and_more, three.first(2), 0, {}, {}));
  EXPECT_NO_THROW(submitter.submit(two_and_more, three, 0, {}, {}));
  EXPECT_EQ(submitter.profile().take(0).size(), 3U);
}

TEST(Submitter, CodeletWithoutAnImplementationIsAnErrorAndLeavesNothingBehind) {
  static const Codelet nothing(
      {.symbol = "dos.test_nothing.v1", .modes = {Mode::kReadWrite}, .tail = {}}, {});
  Session session(kTwoWorkers);
  const Handle buffer(session, {.name = "b", .count = 1});
  const std::vector<const Handle*> buffers{&buffer};
  Submitter submitter(session);
  const std::string message =
      test::message_of<Error>([&] { submitter.submit(nothing, buffers, 0, {}, {}); });
  EXPECT_THAT(message, AllOf(HasSubstr("no worker"), HasSubstr("dos.test_nothing.v1")));
  EXPECT_TRUE(submitter.profile().take(0).empty());
  const HostAccess access(buffer, Mode::kReadWrite);
}

TEST(Submitter, ObserversRunAroundEachSubmissionUntilTheyAreTakenAway) {
  Session session(kTwoWorkers);
  const Handle buffer(session, {.name = "b", .type = DType::kI32, .count = 1});
  const test::Body count_up = [](const TaskView& task) { ++*task.pointer<std::int32_t>(0); };
  Submitter submitter(session);
  std::vector<std::int32_t> seen;
  const auto look = [&](const TaskCall& call) {
    EXPECT_EQ(&call.codelet, &test::body_codelet());
    EXPECT_EQ(call.buffers.size(), 1U);
    EXPECT_EQ(call.arguments.size(), sizeof(void*));
    const HostAccess access(*call.buffers[0], Mode::kRead);
    seen.push_back(access.as<std::int32_t>()[0]);
  };
  submitter.set_observer({.before = look, .after = look});
  for (int i = 0; i < 3; ++i) test::submit_body(submitter, count_up, {&buffer});
  submitter.set_observer({});
  test::submit_body(submitter, count_up, {&buffer});
  EXPECT_THAT(seen, ElementsAre(0, 1, 1, 2, 2, 3));
  const HostAccess access(buffer, Mode::kRead);
  EXPECT_EQ(access.as<std::int32_t>()[0], 4);
}

// Without the bound all would be pending: none can run before the gate opens.
TEST(Submitter, WaitsWhileTooManyTasksArePending) {
  constexpr Index kMostPending = 8;
  Session session(kTwoWorkers);
  const Handle buffer(session, {.name = "b", .count = 1});
  std::atomic<bool> open{false};
  std::atomic<Index> submitted{0};
  Index ran = 0;
  const test::Body body = [&](const TaskView&) {
    EXPECT_TRUE(test::eventually([&] { return open.load(); }));
    ++ran;
  };
  Submitter submitter(session, kMostPending);
  std::thread opener([&] {
    EXPECT_TRUE(test::eventually([&] { return submitted == kMostPending; }));
    test::sleep_ms(20);
    EXPECT_EQ(submitted, kMostPending);
    open = true;
  });
  for (int i = 0; i < 100; ++i) {
    test::submit_body(submitter, body, {&buffer});
    ++submitted;
    EXPECT_LE(starpu_task_nsubmitted(), kMostPending);
  }
  session.wait_all();
  opener.join();
  EXPECT_EQ(ran, 100);
}

// Each takes half of what three ordinary ones take: the third waits, long before there are three.
TEST(Submitter, WaitsWhilePendingTasksTakeTooMuchMemory) {
  constexpr Index kMostPending = 3;
  Session session(kTwoWorkers);
  const Handle buffer(session, {.name = "b", .count = 1});
  std::atomic<bool> open{false};
  std::atomic<Index> submitted{0};
  const test::Body body = [&](const TaskView&) {
    EXPECT_TRUE(test::eventually([&] { return open.load(); }));
  };
  Submitter submitter(session, kMostPending);
  const std::vector<std::byte> payload(
      static_cast<std::size_t>(kMostPending * kMostBytesATask / 2 - task_bytes(1, 1024)));
  const std::vector<const Handle*> buffers{&buffer};
  std::thread opener([&] {
    EXPECT_TRUE(test::eventually([&] { return submitted == 2; }));
    test::sleep_ms(20);
    EXPECT_EQ(submitted, 2);
    open = true;
  });
  const test::Body* address = &body;
  for (int i = 0; i < 10; ++i) {
    submitter.submit(test::body_codelet(), buffers, address, Work{.flops = 1, .sizes = {1}}, {},
                     payload);
    ++submitted;
  }
  session.wait_all();
  opener.join();
  // One that is larger than all of it runs alone.
  const std::vector<std::byte> huge(static_cast<std::size_t>(2 * kMostPending * kMostBytesATask));
  for (int i = 0; i < 2; ++i)
    submitter.submit(test::body_codelet(), buffers, address, Work{.flops = 1, .sizes = {1}}, {},
                     huge);
}

// What an exception between two submissions does: the tasks still report to the profile.
TEST(Submitter, MayEndBeforeItsTasks) {
  Session session(kTwoWorkers);
  const Handle buffer(session, {.name = "b", .count = 1});
  std::atomic<int> ran{0};
  const test::Body slow = [&](const TaskView&) {
    test::sleep_ms(20);
    ++ran;
  };
  {
    Submitter submitter(session);
    for (int i = 0; i < 3; ++i) test::submit_body(submitter, slow, {&buffer});
  }
  EXPECT_EQ(ran, 3);
}

// Who is left out changes nothing, has no record, and those behind it do not wait for ever.
TEST(Submitter, ATaskWhoseConditionDoesNotHoldIsLeftOut) {
  Session session(kTwoWorkers);
  const Handle value(session, {.name = "value", .type = DType::kI32, .count = 1});
  const Handle limit(session, {.name = "limit", .type = DType::kI32, .count = 1});
  static const Codelet write = make_codelet<write_argument>(
      {.symbol = "dos.test_set.v1", .modes = {Mode::kWrite}, .tail = {}});
  static const Codelet write_if = make_codelet<write_argument>(
      {.symbol = "dos.test_set_if.v1", .modes = {Mode::kWrite, Mode::kRead}, .tail = {}});
  const Condition is_odd{.holds =
                             [](const void* what) {
                               std::int32_t number = 0;
                               std::memcpy(&number, what, sizeof number);
                               return number % 2 == 1;
                             },
                         .what = limit.home()};
  const std::vector<const Handle*> values{&value};
  const std::vector<const Handle*> limits{&limit};
  const std::vector<const Handle*> both{&value, &limit};
  Submitter submitter(session);
  submitter.set_tag({Phase::kUpdate, 1});
  constexpr std::int32_t kRounds = 500;
  std::atomic<int> wrong{0};
  std::vector<test::Body> readers;
  for (std::int32_t i = 0; i < kRounds; ++i)
    readers.emplace_back([&, i](const TaskView& task) {
      if (*task.pointer<const std::int32_t>(0) != (i % 2 == 1 ? 1000 + i : i)) ++wrong;
    });
  for (std::int32_t i = 0; i < kRounds; ++i) {
    submitter.submit(write, limits, i, {}, {});
    submitter.submit(write, values, i, {}, {});
    submitter.submit(write_if, both, 1000 + i, {}, {.condition = is_odd});
    test::submit_body(submitter, readers[static_cast<std::size_t>(i)], values, {},
                      test::reading_body_codelet());
  }
  const std::vector<TaskRecord> records = submitter.profile().take(1);
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(std::ssize(records), 3 * kRounds + kRounds / 2);
  EXPECT_EQ(std::ranges::count(records, &write_if, &TaskRecord::codelet), kRounds / 2);
}

}  // namespace
}  // namespace dos::rt::submitter_test
