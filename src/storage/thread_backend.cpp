// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "base/error.hpp"
#include "storage/backend.hpp"

namespace dos::storage {
namespace {

constexpr std::size_t kMostThreads = 64;

Index carry_out(const Operation& operation) {
  const auto bytes = static_cast<std::size_t>(operation.bytes);
  Index result = 0;
  switch (operation.kind) {
    case Kind::kRead:
      result = ::pread(operation.descriptor, operation.memory, bytes, operation.offset);
      break;
    case Kind::kWrite:
      result = ::pwrite(operation.descriptor, operation.memory, bytes, operation.offset);
      break;
    case Kind::kSync:
      result = ::fdatasync(operation.descriptor);
      break;
  }
  return result < 0 ? -errno : result;
}

class ThreadBackend final : public Backend {
 public:
  ThreadBackend() {
    threads_.reserve(kMostThreads);
    const int cause = add_thread();
    if (cause != 0)
      fail_errno(
          "cannot start a thread that reads and writes files; allow more processes (ulimit -u)",
          cause);
  }
  ~ThreadBackend() override {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    work_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  [[nodiscard]] const char* name() const override { return "threads"; }
  [[nodiscard]] Index capacity() const override { return kMostThreads; }

  void start(const Operation& operation, std::uint64_t tag) override {
    {
      const std::lock_guard lock(mutex_);
      waiting_.emplace_back(operation, tag);
      // Those that there are do it where the system lets no more be.
      if (waiting_.size() > idle_ && threads_.size() < kMostThreads) add_thread();
    }
    work_.notify_one();
  }

  std::vector<Completion> wait() override {
    std::unique_lock lock(mutex_);
    done_.wait(lock, [&] { return is_woken_ || !completed_.empty(); });
    is_woken_ = false;
    return std::exchange(completed_, {});
  }

  void wake() override {
    {
      const std::lock_guard lock(mutex_);
      is_woken_ = true;
    }
    done_.notify_one();
  }

 private:
  /// 0, or the system's error.
  int add_thread() {
    try {
      threads_.emplace_back([this] { work(); });
    } catch (const std::system_error& error) {
      return error.code().value();
    }
    return 0;
  }

  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      ++idle_;
      work_.wait(lock, [&] { return ends_ || !waiting_.empty(); });
      --idle_;
      if (waiting_.empty()) return;
      const auto [operation, tag] = waiting_.front();
      waiting_.pop_front();
      lock.unlock();
      const Index result = carry_out(operation);
      lock.lock();
      completed_.push_back({tag, result});
      done_.notify_one();
    }
  }

  std::mutex mutex_;
  std::condition_variable work_;
  std::condition_variable done_;
  std::deque<std::pair<Operation, std::uint64_t>> waiting_;
  std::vector<Completion> completed_;
  std::vector<std::thread> threads_;
  std::size_t idle_ = 0;
  bool is_woken_ = false;
  bool ends_ = false;
};

}  // namespace

std::unique_ptr<Backend> make_thread_backend() {
  return std::make_unique<ThreadBackend>();
}

}  // namespace dos::storage
