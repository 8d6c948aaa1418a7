// SPDX-License-Identifier: Apache-2.0
#include "rt/access.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <thread>

#include "rt/device.hpp"
#include "rt/tasks.hpp"

namespace dos::rt {
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

TEST(Access, ScratchIsNoAccess) {
  Session session(kTwoWorkers);
  const auto handle = Handle::scratch(session, "s", DType::kI32, 1);
  Grant grant;
  EXPECT_THROW(request_access(*handle, kHostNode, Mode::kScratch, grant), ContractViolation);
}

}  // namespace
}  // namespace dos::rt
