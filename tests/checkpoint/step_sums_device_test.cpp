// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "checkpoint/checkpointed_training.hpp"
#include "rt/opencl_device.hpp"
#include "scratch_directory.hpp"

namespace dos::checkpoint::step_sums_device_test {
namespace {

using StepSumsOnADevice = test::OnOpenclDevice;

// A device makes no sums: what it has updated is read once more.
TEST_F(StepSumsOnADevice, AreMadeLater) {
  session_.reset();
  rt::Session session({.scheduler = "eager", .cpu_workers = 1, .opencl_workers = 1});
  const test::ScratchDirectory scratch;
  test::CheckpointedTraining run(session, 100, "adamw", scratch / "out");
  for (Index step = 1; step <= 4; ++step)
    EXPECT_EQ(run.step(step, 1e-2, /*asks_for_sums=*/true).end, Outcome::End::kCommitted);
  test::expect_intact(scratch / "out", 4);
}

}  // namespace
}  // namespace dos::checkpoint::step_sums_device_test
