// SPDX-License-Identifier: Apache-2.0
// What the system, not a device, does to an engine.
#include <dlfcn.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <functional>
#include <memory>
#include <stdexcept>

#include "fails_with.hpp"
#include "io/byte_pattern.hpp"
#include "scratch_directory.hpp"
#include "storage/engine.hpp"
#include "storage/faulty_backend.hpp"
#include "storage/outcomes.hpp"

namespace dos::storage::shortage_test {
namespace {

/// What the ring's next calls come back with, so many times.
std::atomic<int> ring_error = 0;
std::atomic<int> ring_refusals = 0;

/// Calls of fallocate() that a signal interrupts.
std::atomic<int> interruptions = 0;

}  // namespace

bool is_interrupted() {
  return interruptions.load() > 0 && interruptions.fetch_sub(1) > 0;
}

int answer_of_ring() {
  return ring_refusals.load() > 0 && ring_refusals.fetch_sub(1) > 0 ? -ring_error.load() : 0;
}

}  // namespace dos::storage::shortage_test

struct io_uring;

/// In the place of liburing's.
extern "C" int io_uring_submit_and_wait(io_uring* ring, unsigned completions) {
  const int error = dos::storage::shortage_test::answer_of_ring();
  if (error != 0) return error;
  using Function = int (*)(io_uring*, unsigned);
  static const auto original =
      reinterpret_cast<Function>(::dlsym(RTLD_NEXT, "io_uring_submit_and_wait"));
  return original(ring, completions);
}

/// In the place of the system's.
extern "C" int fallocate(int descriptor, int mode, off_t offset, off_t bytes) {
  if (dos::storage::shortage_test::is_interrupted()) {
    errno = EINTR;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_fallocate, descriptor, mode, offset, bytes));
}

namespace dos::storage::shortage_test {
namespace {

using testing::HasSubstr;
using std::chrono_literals::operator""ms;

constexpr Index kBytes = (1 << 20) + 77;
constexpr EngineOptions kOptions{.depth = 4, .block_bytes = 128 * 1024};

/// While it lives no thread can be started: there is no room for a stack.
class NoMoreThreads {
 public:
  NoMoreThreads() {
    ::pthread_getattr_default_np(&before_);
    pthread_attr_t attributes = before_;
    ::pthread_attr_setstacksize(&attributes, std::size_t{1} << 60);
    ::pthread_setattr_default_np(&attributes);
  }
  NoMoreThreads(const NoMoreThreads&) = delete;
  NoMoreThreads& operator=(const NoMoreThreads&) = delete;
  ~NoMoreThreads() {
    ::pthread_setattr_default_np(&before_);
    ::pthread_attr_destroy(&before_);
  }

 private:
  pthread_attr_t before_{};
};

/// Throws when it is told to.
class ThrowingBackend final : public Backend {
 public:
  /// Asked before the number-th call of each, from 0 on.
  using Throws = std::function<bool(Index number)>;

  ThrowingBackend(Throws start_throws, Throws wait_throws)
      : start_throws_(std::move(start_throws)), wait_throws_(std::move(wait_throws)) {}

  [[nodiscard]] const char* name() const override { return inner_->name(); }
  [[nodiscard]] Index capacity() const override { return inner_->capacity(); }
  void start(const Operation& operation, std::uint64_t tag) override {
    if (start_throws_(starts_++)) throw std::runtime_error("no start");
    inner_->start(operation, tag);
  }
  std::vector<Completion> wait() override {
    if (wait_throws_(waits_++)) throw std::runtime_error("no wait");
    return inner_->wait();
  }
  void wake() override { inner_->wake(); }

 private:
  std::unique_ptr<Backend> inner_ = make_thread_backend();
  Throws start_throws_;
  Throws wait_throws_;
  Index starts_ = 0;
  Index waits_ = 0;
};

class Shortage : public testing::Test {
 protected:
  Shortage() : bytes_(test::byte_pattern(kBytes, 9)), back_(bytes_.size()) {}

  void write_and_read(Engine& engine) {
    engine.write(file_, 0, bytes_, outcomes_.done());
    engine.sync(file_, outcomes_.done());
    engine.wait_all();
    engine.read(file_, 0, back_, outcomes_.done());
    engine.wait_all();
    EXPECT_EQ(outcomes_.all(), 3);
  }

  test::ScratchDirectory scratch_;
  DirectFile file_ = DirectFile::create(scratch_ / "file", kBytes);
  std::vector<std::byte> bytes_;
  std::vector<std::byte> back_;
  test::Outcomes outcomes_;
};

TEST_F(Shortage, OfTheRingPasses) {
  for (const int error : {EAGAIN, ENOMEM, EBUSY, EINTR}) {
    std::unique_ptr<Backend> backend = make_uring_backend();
    if (backend == nullptr) GTEST_SKIP() << "no io_uring on this machine";
    test::Outcomes outcomes;
    Engine engine(kOptions, std::move(backend));
    for (int i = 0; i < 3; ++i) {
      ring_error = error;
      ring_refusals = 5;
      std::ranges::fill(back_, std::byte{0});
      engine.write(file_, 0, bytes_, outcomes.done());
      engine.wait_all();
      ring_refusals = 5;
      engine.read(file_, 0, back_, outcomes.done());
      engine.wait_all();
      EXPECT_TRUE(back_ == bytes_);
    }
    EXPECT_LE(ring_refusals, 0);
    EXPECT_EQ(outcomes.all(), 6);
    EXPECT_EQ(outcomes.faults(), 0) << outcomes.last_fault();
    ring_refusals = 0;
  }
}

TEST_F(Shortage, OfAnOtherKindOnTheRingFailsTransfersAlone) {
  std::unique_ptr<Backend> backend = make_uring_backend();
  if (backend == nullptr) GTEST_SKIP() << "no io_uring on this machine";
  ring_error = ENXIO;
  ring_refusals = 1;
  Engine engine(kOptions, std::move(backend));
  write_and_read(engine);
  EXPECT_EQ(outcomes_.faults(), 3);
  EXPECT_THAT(outcomes_.last_fault(),
              HasSubstr("nothing can be read or written any more: io_uring"));
  ring_refusals = 0;
}

TEST_F(Shortage, OfTimeWhileSpaceIsReservedPasses) {
  interruptions = 3;
  EXPECT_EQ(DirectFile::create(scratch_ / "other", 8192).size(), 8192);
  EXPECT_EQ(interruptions, 0);
}

TEST_F(Shortage, OfThreadsLeavesThoseThatThereAre) {
  std::unique_ptr<Backend> backend = make_thread_backend();
  Engine engine(kOptions, std::move(backend));
  const NoMoreThreads limit;
  write_and_read(engine);
  EXPECT_EQ(outcomes_.faults(), 0) << outcomes_.last_fault();
  EXPECT_TRUE(back_ == bytes_);
}

TEST_F(Shortage, OfAllThreadsIsNamed) {
  const NoMoreThreads limit;
  EXPECT_THAT([] { static_cast<void>(make_thread_backend()); },
              test::fails_with({"cannot start a thread that reads and writes files", "ulimit -u"}));
}

// 100 tries take 0.1 + 0.2 + ... + 10 ms = 0.5 s of pauses, five times as long as the shortage.
TEST_F(Shortage, ThatLastsATenthOfASecondIsOvercome) {
  const auto end = std::chrono::steady_clock::now() + 100ms;
  Engine engine(kOptions,
                std::make_unique<test::FaultyBackend>(make_backend(), [&](Index, const Operation&) {
                  const bool fails = std::chrono::steady_clock::now() < end;
                  return test::Mishap{.error = fails ? EAGAIN : 0};
                }));
  write_and_read(engine);
  EXPECT_EQ(outcomes_.faults(), 0) << outcomes_.last_fault();
  EXPECT_TRUE(back_ == bytes_);
}

TEST_F(Shortage, AWaitThatThrowsFailsAllTransfers) {
  for (Index k = 0; k < 4; ++k) {
    test::Outcomes outcomes;
    Engine engine(kOptions,
                  std::make_unique<ThrowingBackend>([](Index) { return false; },
                                                    [=](Index number) { return number == k; }));
    for (int i = 0; i < 6; ++i) engine.write(file_, 0, bytes_, outcomes.done());
    engine.wait_all();
    EXPECT_EQ(outcomes.all(), 6);
    EXPECT_GT(outcomes.faults(), 0) << k;
    const Index before = outcomes.faults();
    engine.read(file_, 0, back_, outcomes.done());
    engine.wait_all();
    EXPECT_EQ(outcomes.faults(), before + 1);
    EXPECT_EQ(outcomes.last_fault(), "nothing can be read or written any more: no wait");
  }
}

TEST_F(Shortage, AStartThatThrowsFailsAllTransfers) {
  for (Index k = 0; k < 9; ++k) {
    test::Outcomes outcomes;
    Engine engine(kOptions,
                  std::make_unique<ThrowingBackend>([=](Index number) { return number == k; },
                                                    [](Index) { return false; }));
    engine.write(file_, 0, bytes_, outcomes.done());
    engine.sync(file_, outcomes.done());
    engine.wait_all();
    EXPECT_EQ(outcomes.all(), 2);
    EXPECT_EQ(outcomes.last_fault(), "nothing can be read or written any more: no start") << k;
  }
}

TEST_F(Shortage, ABackendThatIsSilentForGoodHoldsNobody) {
  bool is_silent = false;
  const auto begin = [&](Index) {
    is_silent = true;
    return false;
  };
  {
    Engine engine(kOptions,
                  std::make_unique<ThrowingBackend>(begin, [&](Index) { return is_silent; }));
    write_and_read(engine);
  }
  EXPECT_EQ(outcomes_.faults(), 3);
}

}  // namespace
}  // namespace dos::storage::shortage_test
