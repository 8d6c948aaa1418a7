// SPDX-License-Identifier: Apache-2.0
#include "sched_starpu/gpu_window.hpp"

#include <gmock/gmock.h>

#include "sched_starpu/tuning.hpp"

namespace dos::sched_starpu::gpu_window_test {
namespace {

constexpr GpuWindow::Limits kThree{
    .window = 3, .slots = 100, .residents = Tuning{}.residents_at_once};

TEST(GpuWindow, OneMayAlwaysEnter) {
  GpuWindow window;
  EXPECT_TRUE(window.has_room(Stay::kStreams, {.window = 0, .slots = 0}));
  window.enter(Stay::kStreams, 0, 1);
  EXPECT_FALSE(window.has_room(Stay::kStreams, {.window = 0, .slots = 0}));
}

TEST(GpuWindow, HoldsWhatTheWindowSays) {
  GpuWindow window;
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(window.has_room(Stay::kStreams, kThree)) << i;
    window.enter(Stay::kStreams, 0, 1);
  }
  EXPECT_FALSE(window.has_room(Stay::kStreams, kThree));
  window.leave(Stay::kStreams, 0);
  EXPECT_TRUE(window.has_room(Stay::kStreams, kThree));
  EXPECT_EQ(window.at_work(), 2);
}

TEST(GpuWindow, ResidentsTakeNoPlaceOfStreamedOnes) {
  GpuWindow window;
  for (Index i = 0; i < Tuning{}.residents_at_once; ++i) window.enter(Stay::kResident, 0, 1);
  EXPECT_FALSE(window.has_room(Stay::kResident, kThree));
  EXPECT_TRUE(window.has_room(Stay::kStreams, kThree));
  EXPECT_EQ(window.streamed(), 0);
  EXPECT_EQ(window.at_work(), Tuning{}.residents_at_once);
}

TEST(GpuWindow, StatesOnTheirWayBackTakeMemory) {
  const GpuWindow::Limits limits{.window = 3, .slots = 3};
  GpuWindow window;
  for (int i = 0; i < 3; ++i) window.enter(Stay::kStreams, 0, 1);
  window.leave(Stay::kStreams, 0);
  window.send_back(1);
  EXPECT_FALSE(window.has_room(Stay::kStreams, limits));
  EXPECT_TRUE(window.has_room(Stay::kStreams, kThree)) << "with memory to spare they do not matter";
  window.returned(1);
  EXPECT_TRUE(window.has_room(Stay::kStreams, limits));
}

// Where nothing is free StarPU writes back what others use, while the GPU's worker waits.
TEST(GpuWindow, TheOnlySlotIsFreeWhenItsStatesAreBack) {
  const GpuWindow::Limits limits{.window = 1, .slots = 1};
  GpuWindow window;
  window.enter(Stay::kStreams, 0, 1);
  window.leave(Stay::kStreams, 1);
  window.send_back(1);
  EXPECT_FALSE(window.has_room(Stay::kStreams, limits));
  EXPECT_EQ(window.returning(), 1);
  window.returned(1);
  EXPECT_TRUE(window.has_room(Stay::kStreams, limits));
}

// With the memory of one buffer to spare the next may come while the last of three leaves.
TEST(GpuWindow, SpareMemoryIsThatOfBuffers) {
  GpuWindow::Limits limits{.window = 1, .slots = 1, .buffers = 3};
  GpuWindow window;
  window.enter(Stay::kStreams, 0, 1);
  window.leave(Stay::kStreams, 1);
  window.send_back(3);
  window.returned(2);
  EXPECT_FALSE(window.has_room(Stay::kStreams, limits));
  limits.spare = 1;
  EXPECT_TRUE(window.has_room(Stay::kStreams, limits));
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
    EXPECT_TRUE(window.has_room(Stay::kArrives, limits)) << i;
    window.enter(Stay::kArrives, 0, 1);
  }
  EXPECT_FALSE(window.has_room(Stay::kArrives, limits));
  EXPECT_FALSE(window.has_room(Stay::kStreams, limits));
  EXPECT_EQ(window.streamed(), 1);
  EXPECT_EQ(window.travelling(), 3);
  window.leave(Stay::kArrives, 1);
  EXPECT_TRUE(window.has_room(Stay::kArrives, limits));
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

}  // namespace
}  // namespace dos::sched_starpu::gpu_window_test
