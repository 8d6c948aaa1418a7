// SPDX-License-Identifier: Apache-2.0
#include "sched_starpu/gpu_window.hpp"

#include <gmock/gmock.h>

namespace dos::sched_starpu {
namespace {

constexpr GpuWindow::Limits kThree{.window = 3, .slots = 100};

TEST(GpuWindow, OneMayAlwaysEnter) {
  GpuWindow window;
  EXPECT_TRUE(window.has_room(false, {.window = 0, .slots = 0}, 0));
  window.enter(false, 0);
  EXPECT_FALSE(window.has_room(false, {.window = 0, .slots = 0}, 0));
}

TEST(GpuWindow, HoldsWhatTheWindowSays) {
  GpuWindow window;
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(window.has_room(false, kThree, 0)) << i;
    window.enter(false, 0);
  }
  EXPECT_FALSE(window.has_room(false, kThree, 0));
  window.leave(false, 0);
  EXPECT_TRUE(window.has_room(false, kThree, 0));
  EXPECT_EQ(window.at_work(), 2);
}

TEST(GpuWindow, ResidentsTakeNoPlaceOfStreamedOnes) {
  GpuWindow window;
  for (Index i = 0; i < kResidentsAtOnce; ++i) window.enter(true, 0);
  EXPECT_FALSE(window.has_room(true, kThree, 0));
  EXPECT_TRUE(window.has_room(false, kThree, 0));
  EXPECT_EQ(window.streamed(), 0);
  EXPECT_EQ(window.at_work(), kResidentsAtOnce);
}

TEST(GpuWindow, StatesOnTheirWayBackTakeMemory) {
  const GpuWindow::Limits limits{.window = 3, .slots = 3};
  GpuWindow window;
  for (int i = 0; i < 3; ++i) window.enter(false, 0);
  window.leave(false, 0);
  window.send_back(/*now=*/10, /*seconds=*/2);
  EXPECT_FALSE(window.has_room(false, limits, 10));
  EXPECT_FALSE(window.has_room(false, limits, 11.9));
  EXPECT_TRUE(window.has_room(false, limits, 12));
  EXPECT_TRUE(window.has_room(false, kThree, 10)) << "with memory to spare they do not matter";
}

// The link takes them one after the other.
TEST(GpuWindow, ReturnsQueueOnTheLink) {
  GpuWindow window;
  EXPECT_EQ(window.returning(0), 0);
  for (int i = 0; i < 3; ++i) window.send_back(1, 0.1);
  EXPECT_EQ(window.returning(1), 3);
  EXPECT_EQ(window.returning(1.15), 2);
  EXPECT_EQ(window.returning(1.25), 1);
  EXPECT_EQ(window.returning(1.31), 0);
  EXPECT_EQ(window.returning(100), 0);
}

TEST(GpuWindow, TheNextIsAtWorkSinceTheOneBeforeEnded) {
  GpuWindow window;
  EXPECT_EQ(window.working(5), 0) << "nothing is";
  window.enter(false, 1);
  window.enter(true, 2);
  EXPECT_EQ(window.working(5), 4);
  window.leave(true, 4);
  EXPECT_EQ(window.working(5), 1);
  EXPECT_EQ(window.streaming(5), 4);
  window.leave(false, 6);
  EXPECT_EQ(window.streaming(7), 0);
}

// Nothing else would wake the GPU up.
TEST(GpuWindow, WhatIsOnItsWayBackDoesNotStopTheGpu) {
  GpuWindow window;
  for (int i = 0; i < 5; ++i) window.send_back(0, 1);
  EXPECT_TRUE(window.has_room(false, {.window = 3, .slots = 3}, 0));
}

}  // namespace
}  // namespace dos::sched_starpu
