// SPDX-License-Identifier: Apache-2.0
#include "rt/access.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <optional>
#include <span>
#include <thread>

#include "rt/device.hpp"
#include "rt/progress.hpp"
#include "rt/tasks.hpp"
#include "rt/two_memory_nodes.hpp"

namespace dos::rt::access_test {
namespace {

const SessionConfig kTwoWorkers{.scheduler = "", .cpu_workers = 2};

/// Remembers where the elements lie.
class Grant final : public AccessListener {
 public:
  void granted(void* data) noexcept override { data_ = static_cast<std::int32_t*>(data); }
  [[nodiscard]] std::int32_t* data() const { return data_; }

 private:
  std::atomic<std::int32_t*> data_{nullptr};
};

const Handle& wait_for(const Grant& grant, const Handle& handle) {
  EXPECT_TRUE(test::eventually([&] { return grant.data() != nullptr; }));
  return handle;
}

TEST(Access, ComesAfterTheTasksBeforeAndHoldsTheLaterOnesBack) {
  Session session(kTwoWorkers);
  const Handle handle(session, {.name = "b", .type = DType::kI32, .count = 1});
  std::atomic<bool> ran_later{false};
  const test::Body slow = [](const TaskView& task) {
    test::sleep_ms(30);
    ++*task.pointer<std::int32_t>(0);
  };
  const test::Body later = [&](const TaskView& task) {
    EXPECT_EQ(*task.pointer<std::int32_t>(0), 7);
    ran_later = true;
  };
  Submitter submitter(session);
  Grant grant;
  test::submit_body(submitter, slow, {&handle});
  request_access(handle, kHostNode, Mode::kReadWrite, grant);
  EXPECT_EQ(grant.data(), nullptr) << "the request does not wait";
  test::submit_body(submitter, later, {&handle});
  wait_for(grant, handle);
  EXPECT_EQ(*grant.data(), 1);
  EXPECT_FALSE(ran_later);
  *grant.data() = 7;
  std::thread([&] { end_access(handle, kHostNode); }).join();
  session.wait_all();
  EXPECT_TRUE(ran_later);
}

TEST(Access, IsGrantedAtOnceWhenNothingUsesTheHandle) {
  Session session(kTwoWorkers);
  const Handle handle(session, {.name = "b", .type = DType::kI32, .count = 1});
  Grant grant;
  request_access(handle, kHostNode, Mode::kWrite, grant);
  end_access(wait_for(grant, handle), kHostNode);
}

TEST(Access, ReadersShareAndAWriterWaitsForAll) {
  Session session(kTwoWorkers);
  const Handle handle(session, {.name = "b", .type = DType::kI32, .count = 1});
  Grant first;
  Grant second;
  Grant writer;
  request_access(handle, kHostNode, Mode::kRead, first);
  request_access(handle, kHostNode, Mode::kRead, second);
  request_access(handle, kHostNode, Mode::kWrite, writer);
  wait_for(first, handle);
  wait_for(second, handle);
  end_access(handle, kHostNode);
  EXPECT_EQ(writer.data(), nullptr);
  end_access(handle, kHostNode);
  end_access(wait_for(writer, handle), kHostNode);
}

// As a progress thread does: ending one access grants the next one in the same call.
TEST(Access, AnEndMayGrantTheNext) {
  Session session(kTwoWorkers);
  const Handle handle(session, {.name = "b", .type = DType::kI32, .count = 1});
  Grant first;
  Grant second;
  request_access(handle, kHostNode, Mode::kWrite, first);
  request_access(handle, kHostNode, Mode::kWrite, second);
  wait_for(first, handle);
  EXPECT_EQ(second.data(), nullptr);
  end_access(handle, kHostNode);
  end_access(wait_for(second, handle), kHostNode);
}

TEST(Access, TellsWhenContentsAreThereAndKeepsNobody) {
  Session session(kTwoWorkers);
  const Handle handle(session, {.name = "b", .type = DType::kI32, .count = 1});
  class Told final : public AccessListener {
   public:
    void granted(void* data) noexcept override { is_told_ = data == nullptr; }
    [[nodiscard]] bool is_told() const { return is_told_; }

   private:
    std::atomic<bool> is_told_ = false;
  } before, after;
  Grant writer;
  await_contents(handle, before);
  EXPECT_TRUE(test::eventually([&] { return before.is_told(); }));
  request_access(handle, kHostNode, Mode::kWrite, writer);
  await_contents(handle, after);
  wait_for(writer, handle);
  test::sleep_ms(20);
  EXPECT_FALSE(after.is_told());
  end_access(handle, kHostNode);
  EXPECT_TRUE(test::eventually([&] { return after.is_told(); }));
}

TEST(Access, ScratchIsNoAccess) {
  Session session(kTwoWorkers);
  const auto handle = Handle::scratch(session, "s", DType::kI32, 1);
  Grant grant;
  EXPECT_THROW(request_access(*handle, kHostNode, Mode::kScratch, grant), ContractViolation);
}

/// A second memory node in the place of a device's, of 1 MiB, and buffers of which one fits in it.
class DeviceAccess : public testing::Test {
 protected:
  static constexpr int kSecond = test::TwoMemoryNodes::kSecond;

  void SetUp() override {
    if (test::TwoMemoryNodes::kObstacle != nullptr) GTEST_SKIP() << test::TwoMemoryNodes::kObstacle;
    machine_.emplace("1");
    session_.emplace(test::TwoMemoryNodes::session());
    before_ = progress().accesses;
  }

  [[nodiscard]] Handle buffer(const char* name) {
    return Handle(*session_, {.name = name, .type = DType::kI32, .count = (Index{3} << 20) / 16});
  }
  /// Since the beginning of the test.
  [[nodiscard]] DeviceAccesses accesses() const {
    const DeviceAccesses now = progress().accesses;
    return {.due = now.due - before_.due,
            .granted = now.granted - before_.granted,
            .ended = now.ended - before_.ended};
  }

  std::optional<test::TwoMemoryNodes> machine_;
  std::optional<Session> session_;
  DeviceAccesses before_;
};

TEST_F(DeviceAccess, IsDueWhenWhatWasBeforeHasEnded) {
  const Handle handle(*session_, {.name = "b", .type = DType::kI32, .count = 1});
  std::atomic<bool> may_end{false};
  const test::Body slow = [&](const TaskView&) {
    while (!may_end) std::this_thread::yield();
  };
  Submitter submitter(*session_);
  Grant first;
  Grant second;
  test::submit_body(submitter, slow, {&handle});
  request_access(handle, kSecond, Mode::kReadWrite, first);
  request_access(handle, kSecond, Mode::kWrite, second);
  test::sleep_ms(20);
  EXPECT_EQ(accesses(), DeviceAccesses{}) << "waits for a task";
  may_end = true;
  wait_for(first, handle);
  EXPECT_EQ(accesses(), (DeviceAccesses{.due = 1, .granted = 1})) << "waits for an access";
  end_access(handle, kSecond);
  end_access(wait_for(second, handle), kSecond);
  EXPECT_EQ(accesses(), (DeviceAccesses{.due = 2, .granted = 2, .ended = 2}));
}

TEST_F(DeviceAccess, CountsReadersBesideEachOther) {
  const Handle handle(*session_, {.name = "b", .type = DType::kI32, .count = 1});
  Grant grants[3];
  request_access(handle, kSecond, Mode::kWrite, grants[0]);
  end_access(wait_for(grants[0], handle), kSecond);
  for (Grant& grant : std::span(grants).subspan(1))
    request_access(handle, kSecond, Mode::kRead, grant);
  for (Grant& grant : std::span(grants).subspan(1)) wait_for(grant, handle);
  EXPECT_TRUE(test::eventually(
      [&] { return accesses() == DeviceAccesses{.due = 3, .granted = 3, .ended = 1}; }));
  for (int reader = 0; reader < 2; ++reader) end_access(handle, kSecond);
}

TEST_F(DeviceAccess, WaitsForTheMemoryThatAnotherOneHolds) {
  const Handle one = buffer("one");
  const Handle other = buffer("other");
  Grant first;
  Grant second;
  request_access(one, kSecond, Mode::kWrite, first);
  wait_for(first, one);
  request_access(other, kSecond, Mode::kWrite, second);
  test::sleep_ms(20);
  EXPECT_EQ(second.data(), nullptr);
  EXPECT_EQ(accesses(), (DeviceAccesses{.due = 2, .granted = 1}));
  StallDetector detector(2);
  for (int look = 0; look < 5; ++look) EXPECT_FALSE(detector.has_stalled(progress()));
  end_access(one, kSecond);
  end_access(wait_for(second, other), kSecond);
  EXPECT_EQ(accesses(), (DeviceAccesses{.due = 2, .granted = 2, .ended = 2}));
}

/// Ends the program, as StarPU never would: with status 0 when a stall is found.
[[noreturn]] void request_too_much(Session& session) {
  const Handle handle(session, {.name = "b", .type = DType::kI32, .count = Index{2} << 18});
  Grant grant;
  request_access(handle, test::TwoMemoryNodes::kSecond, Mode::kWrite, grant);
  StallDetector detector(20);
  const bool stalls = test::eventually([&] {
    test::sleep_ms(1);
    return detector.has_stalled(progress());
  });
  std::_Exit(stalls && grant.data() == nullptr ? EXIT_SUCCESS : EXIT_FAILURE);
}

using DeviceAccessDeathTest = DeviceAccess;

TEST_F(DeviceAccessDeathTest, OfMoreThanThereIsIsAStall) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(request_too_much(*session_), testing::ExitedWithCode(EXIT_SUCCESS), "");
}

TEST_F(DeviceAccess, OfTheHostIsNotCounted) {
  const Handle handle = buffer("b");
  Grant grant;
  request_access(handle, kHostNode, Mode::kWrite, grant);
  end_access(wait_for(grant, handle), kHostNode);
  EXPECT_EQ(accesses(), DeviceAccesses{});
}

}  // namespace
}  // namespace dos::rt::access_test
