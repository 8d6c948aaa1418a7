// SPDX-License-Identifier: Apache-2.0
// Workers, nodes and copies without a task, on a device with its own memory: PoCL where there is no
// GPU.
#include "rt/device.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "rt/tasks.hpp"

namespace dos::rt::device_test {
namespace {

class Devices : public ::testing::Test {
 protected:
  void SetUp() override {
    // Before StarPU starts; it takes PoCL's device only then.
    ::setenv("STARPU_OPENCL_ON_CPUS", "1", 1);
    if (!has_opencl()) GTEST_SKIP() << "this StarPU was built without OpenCL";
    session_.emplace(SessionConfig{.scheduler = "eager", .cpu_workers = 1, .opencl_workers = 1});
    if (devices().empty()) GTEST_SKIP() << "no OpenCL device";
  }

  std::optional<Session> session_;
};

class SmallDevices : public Devices {
 protected:
  static constexpr Index kMegabytes = 8;
  void SetUp() override {
    ::setenv("STARPU_LIMIT_OPENCL_MEM", std::to_string(kMegabytes).c_str(), 1);
    Devices::SetUp();
  }
};

TEST_F(Devices, AreTheWorkersThatAreNoCpus) {
  ASSERT_EQ(devices().size(), 1U);
  const Device device = devices().front();
  EXPECT_FALSE(device.name.empty());
  EXPECT_NE(device.node, kHostNode);
  EXPECT_GT(device.memory_bytes.value_or(1), 0);
  EXPECT_EQ(cpu_workers().size(), 1U);
  EXPECT_NE(cpu_workers().front(), device.worker);
}

TEST_F(Devices, BuffersTravelWithoutATask) {
  const Device device = devices().front();
  for (const Index count : {1, 1001}) {
    const Handle x(*session_, {.name = "x", .count = count});
    std::ranges::fill(HostAccess(x, Mode::kReadWrite).as<float>(), 7.0F);
    fetch(x, device.node, Mode::kReadWrite);
    prefetch(x, kHostNode);
    fetch(x, kHostNode, Mode::kRead);
    prefetch(x, device.node);
    fetch(x, device.node, Mode::kRead);
    fetch(x, device.node, Mode::kReadWrite);
    // The host's copy is outdated now, so what is read has come back.
    const HostAccess access(x, Mode::kRead);
    for (const float value : access.as<float>()) ASSERT_EQ(value, 7.0F);
  }
}

TEST_F(Devices, MemoryIsCountedWhereBuffersAre) {
  const Device device = devices().front();
  const Index before = used_on(device.node);
  const Handle x(*session_, {.name = "x", .count = 1000, .category = MemoryCategory::kGradients});
  const Handle y(*session_, {.name = "y", .count = 500, .category = MemoryCategory::kStates});
  EXPECT_EQ(allocated_on(*session_, device.node).total(), 0);
  EXPECT_EQ(allocated_on(*session_, kHostNode).total(), 6000);
  std::ranges::fill(HostAccess(x, Mode::kReadWrite).as<float>(), 1.0F);
  fetch(x, device.node, Mode::kRead);
  const MemoryBytes bytes = allocated_on(*session_, device.node);
  EXPECT_EQ(bytes[MemoryCategory::kGradients], 4000);
  EXPECT_EQ(bytes.total(), 4000);
  EXPECT_EQ(used_on(device.node) - before, 4000);
}

// The block serves the next buffer of that size, and what the host writes afterwards is read.
TEST_F(Devices, MemoryOfReleasedContentsServesOtherBuffers) {
  const Device device = devices().front();
  const HandleSpec spec{.name = "x", .count = 1000, .category = MemoryCategory::kActivations};
  const Handle x(*session_, spec);
  const Handle y(*session_, spec);
  Submitter submitter(*session_);
  for (int step = 0; step < 2; ++step) {
    std::ranges::fill(HostAccess(x, Mode::kWrite).as<float>(), 1.0F);
    fetch(x, device.node, Mode::kReadWrite);
    const Index used = used_on(device.node);
    EXPECT_EQ(released_on(device.node), 0);
    submitter.release(x);
    session_->wait_all();
    EXPECT_TRUE(x.was_released_from(device.node));
    EXPECT_EQ(released_on(device.node), 4000);
    EXPECT_EQ(allocated_on(*session_, device.node)[MemoryCategory::kActivations],
              step == 0 ? 4000 : 8000)
        << "what each had";
    std::ranges::fill(HostAccess(y, Mode::kWrite).as<float>(), 2.0F);
    fetch(y, device.node, Mode::kReadWrite);
    EXPECT_EQ(used_on(device.node), used);
    EXPECT_EQ(HostAccess(y, Mode::kRead).as<float>()[999], 2.0F);
    submitter.release(y);
    session_->wait_all();
  }
  std::ranges::fill(HostAccess(x, Mode::kWrite).as<float>(), 3.0F);
  fetch(x, device.node, Mode::kRead);
  EXPECT_EQ(HostAccess(x, Mode::kRead).as<float>()[0], 3.0F);
  EXPECT_EQ(released_on(device.node), 0) << "x has the block that y gave up";
}

// What the home has counts, whatever a device has written, and hints stay allowed.
TEST_F(Devices, DroppedCopiesAreNotWrittenHome) {
  const Device device = devices().front();
  std::vector<float> home(1000, 1.0F);
  const Handle x(*session_,
                 {.name = "x", .count = 1000, .lent = reinterpret_cast<std::byte*>(home.data())});
  fetch(x, device.node, Mode::kReadWrite);
  // The device's copy is the only valid one: StarPU would overwrite this with it.
  std::ranges::fill(home, 2.0F);
  x.drop_copies();
  prefetch(x, device.node);
  session_->wait_all();
  EXPECT_EQ(HostAccess(x, Mode::kRead).as<float>()[999], 2.0F);
  // Not before what was submitted is done with it.
  const test::Body body = [](const TaskView& task) { task.pointer<float>(0)[0] += 1; };
  Submitter submitter(*session_);
  test::submit_body(submitter, body, {&x}, {.worker = kAnyCpuWorker});
  x.drop_copies();
  fetch(x, device.node, Mode::kRead);
  EXPECT_EQ(HostAccess(x, Mode::kRead).as<float>()[0], 3.0F);
}

// Memory that is a buffer's own is there from the beginning, and no other buffer gets it; the home
// may be somewhere else each time that the host looks.
TEST_F(SmallDevices, KeepWhatHasMemoryOfItsOwnThere) {
  const Device device = devices().front();
  const Index before = used_on(device.node);
  {
    std::vector<float> first(1000, 7.0F);
    std::vector<float> second(1000, 0.0F);
    const auto bytes_of = [](std::vector<float>& home) {
      return reinterpret_cast<std::byte*>(home.data());
    };
    const Handle x(*session_, {.name = "x",
                               .count = 1000,
                               .category = MemoryCategory::kStates,
                               .lent = bytes_of(first),
                               .kept_on = device.node});
    EXPECT_EQ(used_on(device.node) - before, 4000);
    fetch(x, device.node, Mode::kReadWrite);
    EXPECT_EQ(used_on(device.node) - before, 4000) << "no other memory";
    std::ranges::fill(first, -1.0F);
    // More of others than the node can hold: StarPU makes room by all that it may take.
    std::vector<std::unique_ptr<Handle>> others;
    for (Index i = 0; i < 2 * kMegabytes; ++i) {
      others.push_back(std::make_unique<Handle>(
          *session_, HandleSpec{.name = fmt::format("y{}", i), .count = Index{1} << 18}));
      fetch(*others.back(), device.node, Mode::kReadWrite);
    }
    EXPECT_LE(used_on(device.node), kMegabytes << 20);
    x.move_home(bytes_of(second));
    for (const float value : HostAccess(x, Mode::kRead).as<float>()) ASSERT_EQ(value, 7.0F);
    EXPECT_EQ(second[999], 7.0F);
    EXPECT_EQ(first[0], -1.0F);
    EXPECT_EQ(allocated_on(*session_, device.node)[MemoryCategory::kStates], 4000);
    x.move_home(bytes_of(first));
  }
  EXPECT_EQ(allocated_on(*session_, device.node).total(), 0);
}

TEST_F(Devices, ContentsStayWhereNobodyNeedsTheirMemory) {
  const Device device = devices().front();
  const Handle x(*session_, {.name = "x", .count = 1000});
  std::ranges::fill(HostAccess(x, Mode::kWrite).as<float>(), 1.0F);
  fetch(x, device.node, Mode::kReadWrite);
  Submitter submitter(*session_);
  submitter.set_releases(false);
  submitter.release(x);
  session_->wait_all();
  EXPECT_FALSE(x.was_released_from(device.node));
  EXPECT_EQ(HostAccess(x, Mode::kRead).as<float>()[999], 1.0F);
}

TEST_F(Devices, TasksForTheCpuStayThere) {
  std::set<int> workers;
  const test::Body body = [](const TaskView&) {};
  const Handle x(*session_, {.name = "x", .count = 1});
  Submitter submitter(*session_);
  for (int i = 0; i < 20; ++i) test::submit_body(submitter, body, {&x}, {.worker = kAnyCpuWorker});
  for (const TaskRecord& record : submitter.profile().take(0)) workers.insert(record.worker);
  EXPECT_EQ(workers, std::set<int>{cpu_workers().front()});
  session_->wait_all();  // a task's record comes before StarPU counts it as ended
  EXPECT_EQ(session_->pending_tasks(), 0);
}

// Host memory is the buffer's own: there is nothing to win, and the contents stay.
TEST(Workers, WithoutDevicesNothingIsReleased) {
  Session session({.scheduler = "eager", .cpu_workers = 1});
  const Handle x(session, {.name = "x", .count = 1});
  Submitter submitter(session);
  HostAccess(x, Mode::kReadWrite).as<float>()[0] = 5;
  submitter.release(x);
  EXPECT_EQ(HostAccess(x, Mode::kRead).as<float>()[0], 5);
}

TEST(Workers, ATaskRunsOnTheOneThatItNames) {
  Session session({.scheduler = "eager", .cpu_workers = 2});
  EXPECT_TRUE(devices().empty());
  const Handle x(session, {.name = "x", .count = 1});
  const test::Body body = [](const TaskView&) {};
  Submitter submitter(session);
  for (const int worker : cpu_workers()) {
    for (int i = 0; i < 10; ++i) test::submit_body(submitter, body, {&x}, {.worker = worker});
    for (int i = 0; i < 10; ++i) test::submit_body(submitter, body, {&x}, {.keeper = worker});
    for (const TaskRecord& record : submitter.profile().take(0)) EXPECT_EQ(record.worker, worker);
  }
}

}  // namespace
}  // namespace dos::rt::device_test
