// SPDX-License-Identifier: Apache-2.0
#include "sched_starpu/spinning_mutex.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

#include "base/types.hpp"

namespace dos::sched_starpu::spinning_mutex_test {
namespace {

TEST(SpinningMutex, OneThreadAtATimeHasIt) {
  constexpr Index kThreads = 4;
  constexpr Index kEach = 20'000;
  SpinningMutex mutex;
  Index count = 0;
  std::vector<std::thread> threads;
  for (Index i = 0; i < kThreads; ++i)
    threads.emplace_back([&] {
      for (Index k = 0; k < kEach; ++k) {
        const std::lock_guard lock(mutex);
        ++count;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count, kThreads * kEach);
}

TEST(SpinningMutex, WhoWaitsLongGetsIt) {
  SpinningMutex mutex;
  bool is_over = false;
  mutex.lock();
  EXPECT_FALSE(mutex.try_lock());
  std::thread waiting([&] {
    const std::lock_guard lock(mutex);
    EXPECT_TRUE(is_over);
  });
  // Longer than anyone spins.
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  is_over = true;
  mutex.unlock();
  waiting.join();
  EXPECT_TRUE(mutex.try_lock());
  mutex.unlock();
}

}  // namespace
}  // namespace dos::sched_starpu::spinning_mutex_test
