// SPDX-License-Identifier: Apache-2.0
#include "trace/ring_pool.hpp"

#include <gmock/gmock.h>

#include <latch>
#include <thread>

namespace dos::trace::ring_pool_test {
namespace {

using Pool = RingPool<Index>;

/// The ring of this thread, of the pool with that generation.
Ring<Index>* mine(const std::shared_ptr<Pool>& pool, Index generation) {
  thread_local ThreadRing<Index> ring;
  return ring.of(pool, generation);
}

Index drained(const Pool& pool) {
  Index values = 0;
  for (const auto& ring : pool.all()) ring->drain([&](Index) { ++values; });
  return values;
}

TEST(RingPool, ThreadsThatComeAndGoShareRings) {
  constexpr Index kThreads = 20;
  const auto pool = std::make_shared<Pool>(2, 2 * kThreads);
  for (Index i = 0; i < kThreads; ++i)
    std::thread([&] {
      Ring<Index>* ring = mine(pool, 1);
      ASSERT_NE(ring, nullptr) << i;
      EXPECT_EQ(mine(pool, 1), ring) << "the same as before";
      ring->push(i);
    }).join();
  EXPECT_EQ(drained(*pool), kThreads);
}

TEST(RingPool, NoTwoThreadsThatLiveHaveOne) {
  const auto pool = std::make_shared<Pool>(2, 1);
  std::latch both_have_one(2);
  std::latch both_looked(2);
  std::vector<Ring<Index>*> rings(2);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < 2; ++i)
    threads.emplace_back([&, i] {
      rings[i] = mine(pool, 2);
      both_have_one.arrive_and_wait();
      std::thread([&] { EXPECT_EQ(mine(pool, 2), nullptr) << "none is left"; }).join();
      both_looked.arrive_and_wait();
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_NE(rings[0], rings[1]);
}

TEST(RingPool, AThreadMayOutliveIt) {
  auto first = std::make_shared<Pool>(1, 1);
  const auto second = std::make_shared<Pool>(1, 1);
  std::thread([&] {
    EXPECT_NE(mine(first, 3), nullptr);
    first.reset();
    EXPECT_NE(mine(second, 4), nullptr);
  }).join();
  EXPECT_NE(second->take(), nullptr) << "it was given back";
  EXPECT_EQ(second->take(), nullptr);
}

}  // namespace
}  // namespace dos::trace::ring_pool_test
