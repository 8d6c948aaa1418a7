// SPDX-License-Identifier: Apache-2.0
#include "trace/ring.hpp"

#include <gmock/gmock.h>

#include <thread>
#include <vector>

namespace dos::trace::ring_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<Index> drained(Ring<Index>& ring) {
  std::vector<Index> values;
  ring.drain([&](Index value) { values.push_back(value); });
  return values;
}

TEST(Ring, EmptyAndOneAndWrapAround) {
  Ring<Index> ring(3);
  EXPECT_THAT(drained(ring), IsEmpty());
  for (Index round = 0; round < 5; ++round) {
    ring.push(2 * round);
    ring.push(2 * round + 1);
    EXPECT_THAT(drained(ring), ElementsAre(2 * round, 2 * round + 1));
  }
  EXPECT_EQ(ring.lost(), 0);
}

TEST(Ring, WhatFindsNoRoomIsCounted) {
  Ring<Index> ring(2);
  for (Index i = 0; i < 5; ++i) ring.push(i);
  EXPECT_EQ(ring.lost(), 3);
  EXPECT_THAT(drained(ring), ElementsAre(0, 1));
  ring.push(7);
  EXPECT_THAT(drained(ring), ElementsAre(7));
}

TEST(Ring, TwoThreadsLoseNothingThatIsNotCounted) {
  constexpr Index kValues = 100'000;
  Ring<Index> ring(16);
  std::thread producer([&] {
    for (Index i = 0; i < kValues; ++i) ring.push(i);
  });
  std::vector<Index> all;
  while (std::ssize(all) + ring.lost() < kValues)
    for (const Index value : drained(ring)) all.push_back(value);
  producer.join();
  for (const Index value : drained(ring)) all.push_back(value);
  EXPECT_EQ(std::ssize(all) + ring.lost(), kValues);
  EXPECT_TRUE(std::is_sorted(all.begin(), all.end()));
}

}  // namespace
}  // namespace dos::trace::ring_test
