// SPDX-License-Identifier: Apache-2.0
#include "rt/runtime_memory.hpp"

#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <memory>
#include <vector>

#include "base/sanitizer.hpp"
#include "rt/tasks.hpp"

namespace dos::rt::runtime_memory_test {
namespace {

constexpr const char* kWhySkipped = "sanitizers allocate by themselves";

/// Of all threads, as far as they allocate in the arena of this one.
Index allocated() {
  const struct mallinfo2 info = ::mallinfo2();
  return static_cast<Index>(info.uordblks + info.hblkhd);
}

std::vector<std::unique_ptr<Handle>> make_handles(Session& session, Index count) {
  std::vector<std::unique_ptr<Handle>> handles;
  for (Index i = 0; i < count; ++i)
    handles.push_back(
        std::make_unique<Handle>(session, HandleSpec{.name = "some.buffer", .count = 1}));
  return handles;
}

// Half of it, at most, is a page that a larger buffer fills.
TEST(RuntimeMemory, AHandleTakesWhatIsSaidAndNoThirdOfIt) {
  if (kIsSanitized) GTEST_SKIP() << kWhySkipped;
  constexpr Index kHandles = 2000;
  Session session({.scheduler = "", .cpu_workers = 1});
  const Index before = allocated();
  const auto handles = make_handles(session, kHandles);
  const Index each = (allocated() - before) / kHandles + 4096;
  EXPECT_LE(each, handle_bytes());
  EXPECT_GE(3 * each, handle_bytes());
}

// Each task waits for the one before, through all of its buffers but one.
TEST(RuntimeMemory, APendingTaskTakesWhatIsSaidAndNoThirdOfIt) {
  if (kIsSanitized) GTEST_SKIP() << kWhySkipped;
  constexpr Index kTasks = 2000;
  for (const std::size_t buffers :
       {std::size_t{1}, std::size_t{3}, std::size_t{8}, std::size_t{30}}) {
    Session session({.scheduler = "", .cpu_workers = 1});
    const auto handles = make_handles(session, 40);
    std::atomic<bool> open{false};
    const test::Body body = [&](const TaskView&) {
      EXPECT_TRUE(test::eventually([&] { return open.load(); }));
    };
    Submitter submitter(session);
    std::vector<const Handle*> used;
    for (std::size_t i = 0; i < buffers; ++i) used.push_back(handles[i].get());
    test::submit_body(submitter, body, used);
    const Index before = allocated();
    for (Index i = 0; i < kTasks; ++i) {
      used.back() = handles[buffers + static_cast<std::size_t>(i % 10)].get();
      test::submit_body(submitter, body, used);
    }
    const Index each = (allocated() - before) / kTasks;
    open = true;
    session.wait_all();
    const Index said = task_bytes(static_cast<Index>(buffers), 0);
    EXPECT_LE(each, said) << buffers;
    EXPECT_GE(3 * each, said) << buffers;
  }
}

}  // namespace
}  // namespace dos::rt::runtime_memory_test
