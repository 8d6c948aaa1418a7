// SPDX-License-Identifier: Apache-2.0
#include "sched_starpu/gpu_window.hpp"

#include <gmock/gmock.h>

namespace dos::sched_starpu::gpu_window_test {
namespace {

constexpr GpuWindow::Limits kThree{
    .window = 3, .slots = 100, .residents = Tuning{}.residents_at_once};

TEST(GpuWindow, OneMayAlwaysEnter) {
  GpuWindow window;
  EXPECT_TRUE(window.has_room(Stay::kStreams, {.window = 0, .slots = 0}, 0));
  window.enter(Stay::kStreams, 0, 1);
  EXPECT_FALSE(window.has_room(Stay::kStreams, {.window = 0, .slots = 0}, 0));
}

TEST(GpuWindow, HoldsWhatTheWindowSays) {
  GpuWindow window;
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(window.has_room(Stay::kStreams, kThree, 0)) << i;
    window.enter(Stay::kStreams, 0, 1);
  }
  EXPECT_FALSE(window.has_room(Stay::kStreams, kThree, 0));
  window.leave(Stay::kStreams, 0);
  EXPECT_TRUE(window.has_room(Stay::kStreams, kThree, 0));
  EXPECT_EQ(window.at_work(), 2);
}

TEST(GpuWindow, ResidentsTakeNoPlaceOfStreamedOnes) {
  GpuWindow window;
  for (Index i = 0; i < Tuning{}.residents_at_once; ++i) window.enter(Stay::kResident, 0, 1);
  EXPECT_FALSE(window.has_room(Stay::kResident, kThree, 0));
  EXPECT_TRUE(window.has_room(Stay::kStreams, kThree, 0));
  EXPECT_EQ(window.streamed(), 0);
  EXPECT_EQ(window.at_work(), Tuning{}.residents_at_once);
}

TEST(GpuWindow, StatesOnTheirWayBackTakeMemory) {
  const GpuWindow::Limits limits{.window = 3, .slots = 3};
  GpuWindow window;
  for (int i = 0; i < 3; ++i) window.enter(Stay::kStreams, 0, 1);
  window.leave(Stay::kStreams, 0);
  window.send_back(/*now=*/10, /*seconds=*/2);
  EXPECT_FALSE(window.has_room(Stay::kStreams, limits, 10));
  EXPECT_FALSE(window.has_room(Stay::kStreams, limits, 11.9));
  EXPECT_TRUE(window.has_room(Stay::kStreams, limits, 12));
  EXPECT_TRUE(window.has_room(Stay::kStreams, kThree, 10))
      << "with memory to spare they do not matter";
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
  window.enter(Stay::kStreams, 1, 1);
  window.enter(Stay::kResident, 2, 1);
  EXPECT_EQ(window.working(5), 4);
  window.leave(Stay::kResident, 4);
  EXPECT_EQ(window.working(5), 1);
  EXPECT_EQ(window.travelling(5), 4);
  window.leave(Stay::kStreams, 6);
  EXPECT_EQ(window.travelling(7), 0);
}

TEST(GpuWindow, ArrivalsHaveRoomOfTheirOwn) {
  GpuWindow window;
  const GpuWindow::Limits limits{.window = 1, .slots = 1, .arrivals = 2};
  window.enter(Stay::kStreams, 0, 1);
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(window.has_room(Stay::kArrives, limits, 0)) << i;
    window.enter(Stay::kArrives, 0, 1);
  }
  EXPECT_FALSE(window.has_room(Stay::kArrives, limits, 0));
  EXPECT_FALSE(window.has_room(Stay::kStreams, limits, 0));
  EXPECT_EQ(window.streamed(), 1);
  EXPECT_EQ(window.travelling(), 3);
  window.leave(Stay::kArrives, 1);
  EXPECT_TRUE(window.has_room(Stay::kArrives, limits, 1));
}

// The first of four that come together ends late, and then all do.
TEST(GpuWindow, SlownessIsThatOfAllThatItLetIn) {
  GpuWindow window;
  EXPECT_EQ(window.slowness(1), 0) << "nothing is at work";
  for (int i = 0; i < 4; ++i) window.enter(Stay::kStreams, 10, 0.5);
  EXPECT_DOUBLE_EQ(window.slowness(12), 1);
  EXPECT_DOUBLE_EQ(window.slowness(18), 4);
  for (int i = 0; i < 4; ++i) window.leave(Stay::kStreams, 18);
  window.enter(Stay::kStreams, 20, 0.5);
  EXPECT_DOUBLE_EQ(window.slowness(21), 2) << "after a pause it begins anew";
}

// Nothing else would wake the GPU up.
TEST(GpuWindow, WhatIsOnItsWayBackDoesNotStopTheGpu) {
  GpuWindow window;
  for (int i = 0; i < 5; ++i) window.send_back(0, 1);
  EXPECT_TRUE(window.has_room(Stay::kStreams, {.window = 3, .slots = 3}, 0));
}

}  // namespace
}  // namespace dos::sched_starpu::gpu_window_test
