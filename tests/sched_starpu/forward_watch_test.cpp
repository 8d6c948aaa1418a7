// SPDX-License-Identifier: Apache-2.0
#include "sched_starpu/forward_watch.hpp"

#include <gtest/gtest.h>

#include <array>

namespace dos::sched_starpu {
namespace {

TEST(ForwardWatch, ForwardIsOverWhenAllWeightsHaveBeenRead) {
  const std::array<int, 4> buffers{};
  ForwardWatch watch;
  EXPECT_FALSE(watch.sees());
  EXPECT_FALSE(watch.is_over());
  for (int step = 0; step < 2; ++step) {
    watch.begin_step();
    // The first subgroup has two buffers, of which a task may read either.
    watch.writes(0, &buffers[0]);
    watch.writes(0, &buffers[1]);
    watch.writes(1, &buffers[2]);
    watch.read(&buffers[3]);
    EXPECT_FALSE(watch.sees()) << "nobody updates it";
    watch.read(&buffers[1]);
    watch.read(&buffers[0]);
    EXPECT_TRUE(watch.sees());
    EXPECT_FALSE(watch.is_over());
    watch.read(&buffers[2]);
    EXPECT_TRUE(watch.is_over());
  }
}

// A program may train another model: buffers of the first are gone, and their addresses come again.
TEST(ForwardWatch, WhatAStepDoesNotUpdateIsNotWaitedFor) {
  const std::array<int, 2> buffers{};
  ForwardWatch watch;
  watch.begin_step();
  watch.writes(0, &buffers[0]);
  watch.writes(1, &buffers[1]);
  watch.begin_step();
  watch.writes(2, &buffers[0]);
  watch.read(&buffers[0]);
  EXPECT_TRUE(watch.is_over());
}

}  // namespace
}  // namespace dos::sched_starpu
