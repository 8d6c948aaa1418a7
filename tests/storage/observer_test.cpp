// SPDX-License-Identifier: Apache-2.0
#include "storage/observer.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "scratch_directory.hpp"
#include "storage/blocking.hpp"
#include "storage/faulty_backend.hpp"
#include "storage/outcomes.hpp"

namespace dos::storage::observer_test {
namespace {

using test::FaultyBackend;
using test::Mishap;
using test::Outcomes;

struct Seen {
  Activity activity;
  const DirectFile* file;
  std::string buffer;
  Index step;
  Index bytes;
  double seconds;
};

/// The engine's thread's until Engine::wait_all().
class Notes final : public Observer {
 public:
  void saw(const Observation& observation) noexcept override {
    const Label& label = observation.label;
    all.push_back({observation.activity, observation.file, std::string(label.buffer), label.step,
                   observation.bytes,
                   std::chrono::duration<double>(observation.end - observation.start).count()});
  }
  std::vector<Seen> all;
};

class ObserverTest : public testing::Test {
 protected:
  [[nodiscard]] static std::unique_ptr<Backend> backend(FaultyBackend::Plan plan) {
    return std::make_unique<FaultyBackend>(make_thread_backend(), std::move(plan));
  }

  test::ScratchDirectory scratch_;
  Notes notes_;
  Outcomes outcomes_;
  std::vector<std::byte> bytes_ = std::vector<std::byte>(300'000);
};

TEST_F(ObserverTest, IsToldOfEachTransferWithItsBytesAndTime) {
  constexpr std::chrono::milliseconds kDelay(3);
  const DirectFile file = DirectFile::create(scratch_ / "file", 300'000);
  // Each transfer takes several operations, and the first of them is continued.
  Engine engine({.depth = 1, .block_bytes = 64 * 1024},
                backend([&](Index number, const Operation&) {
                  return Mishap{.most_bytes = number == 0 ? 1000 : -1, .delay = kDelay};
                }));
  engine.observe(&notes_);
  std::vector<std::byte> back(1000);
  const std::string name = "a";
  engine.write(file, 0, bytes_, outcomes_.done(),
               {.purpose = Purpose::kCheckpoint, .step = 7, .buffer = name});
  engine.sync(file, outcomes_.done(), {.step = 8});
  engine.read(file, 5, back, outcomes_.done());
  engine.wait_all();
  ASSERT_EQ(notes_.all.size(), 3U);
  const Seen& write = notes_.all[0];
  EXPECT_EQ(write.activity, Activity::kWrite);
  EXPECT_EQ(write.file, &file);
  EXPECT_EQ(write.buffer, "a");
  EXPECT_EQ(write.step, 7);
  EXPECT_EQ(write.bytes, 300'000);
  // Each of its operations, at least six, was delayed after it had begun.
  EXPECT_GE(write.seconds, 6 * std::chrono::duration<double>(kDelay).count());
  EXPECT_EQ(notes_.all[1].activity, Activity::kFlush);
  EXPECT_EQ(notes_.all[1].step, 8);
  EXPECT_EQ(notes_.all[2].activity, Activity::kRead);
  EXPECT_EQ(notes_.all[2].bytes, 1000);
}

TEST_F(ObserverTest, IsToldWhatWasMovedBeforeAFault) {
  const DirectFile file = DirectFile::create(scratch_ / "file", 300'000);
  Engine engine({.depth = 1, .block_bytes = 64 * 1024}, backend([](Index number, const Operation&) {
                  return Mishap{.error = number == 2 ? EIO : 0};
                }));
  engine.observe(&notes_);
  engine.write(file, 0, bytes_, outcomes_.done());
  engine.wait_all();
  EXPECT_EQ(outcomes_.faults(), 1);
  ASSERT_EQ(notes_.all.size(), 1U);
  EXPECT_EQ(notes_.all[0].bytes, 2 * 64 * 1024);
}

TEST_F(ObserverTest, IsNotToldWhatIsNone) {
  const DirectFile file = DirectFile::create(scratch_ / "file", 0);
  Engine engine({}, make_thread_backend());
  EXPECT_EQ(engine.observer(), nullptr);
  engine.observe(&notes_);
  EXPECT_EQ(engine.observer(), &notes_);
  engine.write(file, 0, {}, outcomes_.done());
  engine.wait_all();
  engine.observe(nullptr);
  engine.sync(file, outcomes_.done());
  engine.wait_all();
  EXPECT_EQ(outcomes_.all(), 2);
  EXPECT_TRUE(notes_.all.empty());
}

TEST_F(ObserverTest, ADiskIsNamedByWhereItIsMounted) {
  const DirectFile file = DirectFile::create(scratch_ / "file", 1);
  const std::filesystem::path place = file.mount_point();
  EXPECT_TRUE(place.is_absolute());
  const auto below = std::filesystem::relative(file.path(), place);
  EXPECT_NE(*below.begin(), "..") << place << " is above " << file.path();
  const std::filesystem::path memory = "/dev/shm";
  struct stat root {};
  struct stat there {};
  if (::stat("/dev", &root) != 0 || ::stat(memory.c_str(), &there) != 0 ||
      root.st_dev == there.st_dev)
    GTEST_SKIP() << "no file system of its own at /dev/shm";
  const std::filesystem::path other = memory / fmt::format("dos-test-{}", ::getpid());
  EXPECT_EQ(DirectFile::create(other, 1).mount_point(), memory);
  std::filesystem::remove(other);
}

}  // namespace
}  // namespace dos::storage::observer_test
