// SPDX-License-Identifier: Apache-2.0
// What an UpdateBoard reports of the steps.
#include <gmock/gmock.h>

#include "sched_starpu/update_program.hpp"

namespace dos::sched_starpu::update_board_report_test {
namespace {

TEST(UpdateBoard, ReportsWhatWasPlannedAndWhatRan) {
  Program program("gpu-only", surroundings(1));
  program.step();
  program.step();
  const Index first = program.arrive(0);
  ASSERT_FALSE(program.board.planned(first).device.is_cpu());
  program.board.executed(first, {}, units::Seconds(1));
  for (Index i = 1; i < kSubgroups; ++i) program.arrive(i);
  program.arrive(0);
  const StepReport last = program.board.report().steps.back();
  EXPECT_EQ(last.step, 3);
  EXPECT_EQ(last.planned_gpu.value(), kSubgroups * kParams);
  EXPECT_EQ(last.executed_gpu.value(), 0);
  EXPECT_EQ(last.moved, 1);
}

// Shares, and bytes of the link, are those of where updates ran.
TEST(UpdateBoard, CountsWhatRanElsewhereByReason) {
  Program program("dos-stride", surroundings(1), {.stride = 2});
  for (int i = 0; i < 2; ++i) program.step();
  const auto run = [&](Index i, Device device, std::optional<MoveReason> reason) {
    program.board.executed(program.arrive(i), device, units::Seconds(1e-3), reason);
  };
  Index gpus = 0;
  while (program.board.planned(gpus).device.is_cpu()) ++gpus;
  const Index cpus = gpus == 0 ? 1 : 0;
  ASSERT_TRUE(program.board.planned(cpus).device.is_cpu());
  run(gpus, {}, MoveReason::kOverdue);
  run(cpus, {.gpu = 0}, MoveReason::kOverdue);
  run(cpus + 2, {.gpu = 0}, MoveReason::kSooner);
  const Index unable = gpus + 2;
  run(unable, {}, std::nullopt);
  program.arrive(unable);
  const StepReport last = program.board.report().steps.back();
  EXPECT_EQ(last.updates, 4);
  EXPECT_EQ(last.moved, 4);
  EXPECT_EQ(last.overdue, 2);
  EXPECT_EQ(last.sooner, 1);
  EXPECT_EQ(last.to_cpu.value(), kParams);
  EXPECT_EQ(last.to_gpu.value(), 2 * kParams);
  EXPECT_EQ(last.executed_gpu.value(), 2 * kParams);
  // States of what the GPU ran, and working parameters of what the CPU ran.
  EXPECT_EQ(last.needed[0].in.value(), (2 * 12.0 + 2 * 2.0) * kParams);
  EXPECT_EQ(last.needed[0].out.value(), 2 * 12.0 * kParams);
}

TEST(UpdateBoard, ReportsTheLastStepsAndTheSumOfAll) {
  Program program("zero-offload", surroundings(0));
  for (int i = 0; i < 9; ++i) program.step();
  const UpdatesReport report = program.board.report();
  ASSERT_EQ(std::ssize(report.steps), Tuning{}.reported_steps);
  EXPECT_EQ(report.steps.front().step, 4);
  EXPECT_EQ(report.steps.back().step, 8);
  EXPECT_EQ(report.all.step, 9);
  EXPECT_EQ(report.all.total.value(), 9 * kSubgroups * kParams);
}

}  // namespace
}  // namespace dos::sched_starpu::update_board_report_test
