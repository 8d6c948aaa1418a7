// SPDX-License-Identifier: Apache-2.0
#include "rt/handle.hpp"

#include <gmock/gmock.h>
#include <starpu.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <fstream>
#include <limits>
#include <mutex>
#include <set>

#include "rt/tasks.hpp"

namespace dos::rt::handle_test {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

const SessionConfig kTwoWorkers{.scheduler = "", .cpu_workers = 2};
constexpr Index kMostElements = std::numeric_limits<std::uint32_t>::max();

TEST(Handle, KeepsItsSpecification) {
  Session session(kTwoWorkers);
  const Handle handle(session, {.name = "weights",
                                .type = DType::kF64,
                                .count = 7,
                                .category = MemoryCategory::kParameters});
  EXPECT_EQ(handle.name(), "weights");
  EXPECT_EQ(handle.type(), DType::kF64);
  EXPECT_EQ(handle.count(), 7);
  EXPECT_EQ(handle.bytes(), 56);
}

// Below, at and above a page and a huge page.
TEST(Handle, StartsZeroed) {
  Session session(kTwoWorkers);
  for (const Index count : {0, 1, 3, 4095, 4096, 4097, (1 << 21) - 1, 1 << 21, (1 << 21) + 1}) {
    SCOPED_TRACE(count);
    const Handle handle(session, {.name = "b", .type = DType::kU8, .count = count});
    const HostAccess access(handle, Mode::kRead);
    const auto bytes = access.as<const std::uint8_t>();
    EXPECT_EQ(std::count(bytes.begin(), bytes.end(), 0), count);
  }
}

/// Of this process.
Index resident_bytes() {
  Index all = 0;
  Index resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

// All the same its contents have a place, should a device have none for them.
TEST(Handle, ThatStaysOnDevicesTakesNoHostMemory) {
  Session session(kTwoWorkers);
  constexpr Index kBytes = Index{64} << 20;
  const Index before = resident_bytes();
  const Handle handle(
      session,
      {.name = "activations", .type = DType::kU8, .count = kBytes, .stays_on_devices = true});
  EXPECT_EQ(session.memory().now().total(), 0);
  EXPECT_LT(resident_bytes() - before, kBytes / 4);
  {
    const HostAccess access(handle, Mode::kWrite);
    std::ranges::fill(access.as<std::uint8_t>(), std::uint8_t{7});
  }
  EXPECT_GT(resident_bytes() - before, kBytes / 2);
  const HostAccess access(handle, Mode::kRead);
  EXPECT_EQ(std::ranges::count(access.as<std::uint8_t>(), 7), kBytes);
}

TEST(Handle, RefusesMoreElementsThanStarPUCounts) {
  Session session(kTwoWorkers);
  for (const Index count : {kMostElements + 1, std::numeric_limits<Index>::max(), Index{-1}}) {
    SCOPED_TRACE(count);
    const HandleSpec spec{.name = "logits", .type = DType::kF64, .count = count};
    const std::string owned = test::message_of<Error>([&] { const Handle h(session, spec); });
    EXPECT_THAT(owned, AllOf(HasSubstr("'logits'"), HasSubstr(std::to_string(count)),
                             HasSubstr("2^32 - 1")));
    const std::string scratch = test::message_of<Error>(
        [&] { static_cast<void>(Handle::scratch(session, "logits", DType::kF64, count)); });
    EXPECT_EQ(scratch, owned);
    EXPECT_EQ(session.memory().now().total(), 0);
  }
}

/// Address space that this process may take, restored at scope end.
class AddressSpaceLimit {
 public:
  explicit AddressSpaceLimit(rlim_t more_bytes) {
    ::getrlimit(RLIMIT_AS, &before_);
    rlim_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    rlimit limit = before_;
    limit.rlim_cur = pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) + more_bytes;
    ::setrlimit(RLIMIT_AS, &limit);
  }
  AddressSpaceLimit(const AddressSpaceLimit&) = delete;
  AddressSpaceLimit& operator=(const AddressSpaceLimit&) = delete;
  ~AddressSpaceLimit() { ::setrlimit(RLIMIT_AS, &before_); }

 private:
  rlimit before_{};
};

TEST(Handle, MemoryThatTheSystemRefusesIsAnErrorAndIsNotCounted) {
  Session session(kTwoWorkers);
  const std::string message = test::message_of<Error>([&] {
    const AddressSpaceLimit limit(rlim_t{1} << 30U);
    const Handle handle(session, {.name = "b", .type = DType::kF64, .count = kMostElements});
  });
  EXPECT_THAT(message, AllOf(HasSubstr("32.0 GiB"), HasSubstr("smaller")));
  EXPECT_EQ(session.memory().now().total(), 0);
}

TEST(Handle, IsCountedByCategoryWhileItLives) {
  Session session(kTwoWorkers);
  for (const MemoryCategory category : kBufferCategories) {
    const Handle handle(session, {.name = "b", .count = 10, .category = category});
    const Handle other(session,
                       {.name = "c", .type = DType::kI32, .count = 5, .category = category});
    EXPECT_EQ(session.memory().now()[category], 60);
    EXPECT_EQ(session.memory().now().total(), 60);
  }
  EXPECT_THAT(session.memory().now().bytes, Each(0));
}

TEST(Handle, ScratchIsCountedOnceForEachWorker) {
  Session session(kTwoWorkers);
  {
    const auto scratch = Handle::scratch(session, "tile", DType::kF32, 100);
    EXPECT_EQ(session.memory().now()[MemoryCategory::kWorkspace], 2 * 400);
    EXPECT_EQ(scratch->count(), 100);
  }
  EXPECT_EQ(session.memory().now().total(), 0);
}

// Two tasks that need each other to be running: a shared work space would run them one by one.
TEST(Handle, ScratchIsPrivateToTheWorkerAndOrdersNothing) {
  Session session(kTwoWorkers);
  const auto scratch = Handle::scratch(session, "tile", DType::kF32, 1000);
  std::atomic<int> started{0};
  std::atomic<int> met{0};
  std::mutex mutex;
  std::set<float*> tiles;
  const test::Body body = [&](const TaskView& task) {
    auto* tile = task.pointer<float>(0);
    EXPECT_EQ(task.count(0), 1000);
    std::fill_n(tile, 1000, 1.0F);
    ++started;
    if (test::eventually([&] { return started == 2; })) ++met;
    const std::lock_guard lock(mutex);
    tiles.insert(tile);
  };
  Submitter submitter(session);
  for (int i = 0; i < 2; ++i) {
    test::submit_body(submitter, body, {scratch.get()}, {}, test::scratch_body_codelet());
  }
  session.wait_all();
  EXPECT_EQ(met, 2);
  EXPECT_EQ(tiles.size(), 2U);
  EXPECT_EQ(tiles.count(nullptr), 0U);
}

TEST(Handle, DestructionWaitsForItsTasks) {
  Session session(kTwoWorkers);
  std::atomic<int> done{0};
  const test::Body slow = [&](const TaskView& task) {
    test::sleep_ms(20);
    task.pointer<float>(0)[0] += 1;
    ++done;
  };
  Submitter submitter(session);
  {
    const Handle handle(session, {.name = "b", .count = 1});
    for (int i = 0; i < 3; ++i) test::submit_body(submitter, slow, {&handle});
  }
  EXPECT_EQ(done, 3);
}

}  // namespace
}  // namespace dos::rt::handle_test
