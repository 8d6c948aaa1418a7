// SPDX-License-Identifier: Apache-2.0
#include "sched_starpu/update_board.hpp"

#include <gmock/gmock.h>

#include <functional>

#include "base/error.hpp"
#include "sched_starpu/update_program.hpp"

namespace dos::sched_starpu::update_board_test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

TEST(UpdateBoard, TheFirstStepShowsTheRates) {
  Program program("dos", surroundings(2));
  EXPECT_FALSE(program.board.rates().expected(kParams, {}).has_value());
  program.step();
  EXPECT_FALSE(program.board.plans().plan().has_value());
  EXPECT_EQ(program.gpu_share(), 4.0 / kSubgroups);
  EXPECT_NEAR(program.board.rates().expected(kParams, {})->value(), kParams / kCpuRate, 1e-9);
  // 12 bytes a parameter at 20 GB/s take longer than the kernel.
  EXPECT_NEAR(program.board.rates().expected(kParams, {.gpu = 1})->value(), kParams * 12 / 20e9,
              1e-9);
}

TEST(UpdateBoard, UpdatesThatRunAsTheyComeRatherEndEarly) {
  /// A step in which an update runs when `behind` more have arrived.
  const auto step = [](UpdateBoard& board, const Program& program, Index behind) {
    for (Index i = 0; i < kSubgroups + behind; ++i) {
      if (i < kSubgroups) announce(board, program.task(i));
      if (i >= behind) board.executed(i - behind, {}, units::Seconds(kParams / kCpuRate));
    }
  };
  Program program("dos", surroundings(1));
  program.step();
  program.step();
  program.arrive(0);
  EXPECT_FALSE(program.board.prefers_earliest_end()) << "all came at once";
  for (const auto& [behind, early] : {std::pair{0, true}, {19, true}, {20, false}, {39, false}}) {
    UpdateBoard board("dos", {}, surroundings(1));
    board.suggest(kParams, {.gpu = 0}, units::Seconds(kParams / kGpuRate));
    step(board, program, behind);
    EXPECT_FALSE(board.prefers_earliest_end()) << "no plan yet";
    announce(board, program.task(0));
    EXPECT_EQ(board.prefers_earliest_end(), early) << behind;
  }
  UpdateBoard fixed("dos", {.share = 0.5}, surroundings(1));
  fixed.suggest(kParams, {.gpu = 0}, units::Seconds(kParams / kGpuRate));
  step(fixed, program, 0);
  announce(fixed, program.task(0));
  EXPECT_FALSE(fixed.prefers_earliest_end()) << "the share is the user's";
}

TEST(UpdateBoard, FromTheSecondStepOnThePlanHolds) {
  Program program("dos", surroundings(1));
  program.step();
  program.step();
  ASSERT_TRUE(program.board.plans().plan().has_value());
  // Eight workers do 0.8 Gparam/s, the link lets 20/12 pass: about two thirds go to the GPU. Whole
  // rounds of eight workers make 4 of 40 subgroups of difference.
  EXPECT_NEAR(program.gpu_share(), 0.67, 0.1);
  EXPECT_GE(program.board.plans().limits(0).window, 2);
  const UpdatesReport report = program.board.report();
  EXPECT_THAT(report.plan, HasSubstr("dos: "));
  EXPECT_THAT(report.obstacle, IsEmpty());
  ASSERT_EQ(report.steps.size(), 1U);
  EXPECT_EQ(report.steps[0].step, 1);
  EXPECT_EQ(report.steps[0].total.value(), kSubgroups * kParams);
}

TEST(UpdateBoard, PlansTheTrafficOfTheCpuAndOfStreamedUpdates) {
  // Two probes in the first step: 12 bytes each way. The CPU's parameters go to the GPUs in turn.
  Program program("dos", surroundings(2));
  program.step();
  program.step();
  const StepReport probed = program.board.report().steps.front();
  const double each_in = 2.0 * (kSubgroups - 4) / 2 * kParams;
  EXPECT_EQ(probed.needed[0].in.value(), 2 * 12.0 * kParams + each_in);
  EXPECT_EQ(probed.needed[1].out.value(), 2 * 12.0 * kParams);
}

TEST(UpdateBoard, ZeroOffloadAsksNoGpuForItsRate) {
  Program program("zero-offload", surroundings(2));
  for (int i = 0; i < 3; ++i) program.step();
  const UpdatesReport report = program.board.report();
  EXPECT_THAT(report.plan, HasSubstr("(cpu)")) << "the bound";
  EXPECT_THAT(report.obstacle, IsEmpty());
  for (const StepReport& step : report.steps) {
    EXPECT_EQ(step.planned_gpu.value(), 0);
    EXPECT_EQ(step.needed[0].in.value(), 2.0 * kSubgroups / 2 * kParams);
    EXPECT_EQ(step.needed[1].out.value(), 0);
  }
}

TEST(UpdateBoard, PlansTheTrafficOfResidents) {
  Surroundings around = surroundings(1);
  around.gpus[0].memory.resident = around.gpus[0].memory.update;
  Program program("gpu-only", around);
  program.model_on_host();
  for (int i = 0; i < 4; ++i) program.step();
  const UpdatesReport report = program.board.report();
  // States come once; gradients come and parameters go in each step.
  EXPECT_EQ(report.steps[1].needed[0].in.value(), (12.0 + 4) * kSubgroups * kParams);
  EXPECT_EQ(report.steps[1].needed[0].out.value(), 4.0 * kSubgroups * kParams);
  EXPECT_EQ(report.steps[2].needed[0].in.value(), 4.0 * kSubgroups * kParams);
  EXPECT_EQ(report.steps[2].needed[0].out.value(), 4.0 * kSubgroups * kParams);
}

TEST(UpdateBoard, PlansTheWorkingParametersThatGoHomeBesideStreamedStates) {
  Program program("gpu-only", surroundings(1, /*memory=*/1e8));
  program.model_on_host_in_bf16();
  for (int i = 0; i < 3; ++i) program.step();
  const StepReport last = program.board.report().steps.back();
  EXPECT_EQ(last.needed[0].in.value(), (12.0 + 2) * kSubgroups * kParams);
  EXPECT_EQ(last.needed[0].out.value(), (12.0 + 2) * kSubgroups * kParams);
  EXPECT_NEAR(program.board.rates().write_back_time(kParams, {.gpu = 0}).value(),
              1e-5 + 14e6 / 20e9, 1e-12);
}

TEST(UpdateBoard, PlansTheTrafficOfGradientsThatComeFromTheHost) {
  Surroundings around = surroundings(1);
  around.gpus[0].memory.resident = around.gpus[0].memory.update;
  Program residents("gpu-only", around);
  residents.gradients_on_host();
  for (int i = 0; i < 4; ++i) residents.step();
  const StepReport stay = residents.board.report().steps.back();
  EXPECT_EQ(stay.needed[0].in.value(), 4.0 * kSubgroups * kParams);
  EXPECT_EQ(stay.needed[0].out.value(), 0);
  Program streamed("dos-stride", surroundings(1), {.stride = 2});
  streamed.gradients_on_host();
  for (int i = 0; i < 3; ++i) streamed.step();
  const StepReport half = streamed.board.report().steps.back();
  // Half with states and gradient; working parameters of the others.
  EXPECT_EQ(half.needed[0].in.value(), (12.0 + 4 + 2) * kSubgroups / 2 * kParams);
  EXPECT_EQ(half.needed[0].out.value(), 12.0 * kSubgroups / 2 * kParams);
}

TEST(UpdateBoard, IdentityIsTheSubgroupWhateverTheOrderOfArrival) {
  Program program("dos-stride", surroundings(1), {.stride = 2});
  program.step();
  program.step();
  std::vector<Device> before;
  for (Index i = 0; i < kSubgroups; ++i) before.push_back(program.board.planned(i).device);
  for (Index i = kSubgroups - 1; i >= 0; --i) EXPECT_EQ(program.arrive(i), i);
  for (Index i = 0; i < kSubgroups; ++i)
    EXPECT_EQ(program.board.planned(i).device, before[static_cast<std::size_t>(i)]) << i;
}

TEST(UpdateBoard, PlansAgainWhenTheCpuHasBecomeSlower) {
  Program program("dos", surroundings(1));
  program.step();
  program.step();
  const double share = program.gpu_share();
  for (int i = 0; i < 10; ++i) program.step(kCpuRate / 3);
  EXPECT_GT(program.gpu_share(), share + 0.1);
}

// Rates that move by more than 5 % are planned with, but a gain below 3 % changes nothing.
TEST(UpdateBoard, AGainTooSmallDoesNotChangeThePlacement) {
  Program program("dos", surroundings(1));
  program.step();
  program.step();
  const double share = program.gpu_share();
  for (int i = 0; i < 5; ++i) program.step(kCpuRate * 0.94);
  EXPECT_EQ(program.gpu_share(), share);
  EXPECT_NE(program.board.rates().expected(kParams, {})->value(), kParams / kCpuRate);
}

TEST(UpdateBoard, NoiseDoesNotChangeThePlan) {
  Program program("dos", surroundings(1));
  program.step();
  program.step();
  const std::string before = program.board.report().plan;
  for (const double factor : {1.03, 0.97, 1.02, 0.98, 1.04}) program.step(kCpuRate * factor);
  EXPECT_EQ(program.board.report().plan, before);
}

TEST(UpdateBoard, WithoutAGpuEverythingIsTheCpus) {
  Program program("dos", surroundings(0));
  program.step();
  program.step();
  EXPECT_EQ(program.gpu_share(), 0);
  EXPECT_TRUE(program.board.plans().plan().has_value());
}

TEST(UpdateBoard, WhatCannotBePlannedIsSaidAndStaysOnTheCpu) {
  Program program("gpu-only", surroundings(1, /*memory=*/1e6));
  program.step();
  program.step();
  EXPECT_EQ(program.gpu_share(), 0);
  EXPECT_THAT(program.board.report().obstacle, HasSubstr("GB free for states"));
}

// Both subgroups show the GPU's rate in the first step, the CPU's is seen in the second.
TEST(UpdateBoard, FewSubgroupsArePlannedOneStepLater) {
  UpdateBoard board("dos", {}, surroundings(1));
  std::array<char, 2> identities{};
  for (int step = 1; step <= 3; ++step) {
    EXPECT_FALSE(board.plans().plan().has_value()) << step;
    for (const char& identity : identities) {
      const Index index =
          announce(board, {.subgroup = &identity, .params = kParams, .priority = 0, .cost = {}});
      const Device device = board.planned(index).device;
      board.executed(index, device,
                     units::Seconds(kParams / (device.is_cpu() ? kCpuRate : kGpuRate)));
    }
    if (step == 2) {
      EXPECT_THAT(board.report().obstacle, HasSubstr("no update has run on every"));
    }
  }
  EXPECT_TRUE(board.plans().plan().has_value());
  EXPECT_THAT(board.report().obstacle, IsEmpty());
}

TEST(UpdateBoard, SubgroupsThatAppearLaterArePlannedFromTheirNextStep) {
  Program program("gpu-only", surroundings(1));
  program.step();
  program.step();
  char late = 0;
  const UpdateTask task{.subgroup = &late, .params = kParams, .priority = 0, .cost = {}};
  const Index index = announce(program.board, task);
  EXPECT_TRUE(program.board.planned(index).device.is_cpu());
  program.step();
  EXPECT_FALSE(program.board.planned(index).device.is_cpu());
}

TEST(UpdateBoard, ARateThatAModelKnowsNeedsNoProbe) {
  Program program("dos", surroundings(2));
  UpdateBoard& board = program.board;
  EXPECT_FALSE(board.rates().are_known());
  board.suggest(kParams, {}, units::Seconds(0));
  board.suggest(0, {}, units::Seconds(1));
  EXPECT_FALSE(board.rates().expected(kParams, {}).has_value()) << "of a model that knows nothing";
  board.suggest(kParams, {.gpu = 0}, units::Seconds(kParams / kGpuRate));
  // GPU 0 is known, GPU 1 gets its two probes.
  for (Index i = 0; i < 4; ++i) EXPECT_EQ(program.arrive(i), i);
  EXPECT_TRUE(board.planned(0).device.is_cpu());
  EXPECT_EQ(board.planned(1).device, Device{.gpu = 1});
  EXPECT_TRUE(board.planned(2).device.is_cpu());
  EXPECT_EQ(board.planned(3).device, Device{.gpu = 1});
  board.suggest(kParams, {.gpu = 1}, units::Seconds(kParams / kGpuRate));
  board.suggest(kParams, {}, units::Seconds(kParams / kCpuRate));
  EXPECT_TRUE(board.rates().are_known());
  program.arrive(0);
  EXPECT_TRUE(board.plans().plan().has_value()) << "without one update that has run";
}

TEST(UpdateBoard, AGpuIsMeasuredByWhatWasThereInTheStepBefore) {
  Program program("gpu-only", surroundings(1));
  program.step();
  UpdateBoard& board = program.board;
  // 12 bytes a parameter over the link take less than these.
  const Device gpu{.gpu = 0};
  const units::Seconds slow(1);
  const units::Seconds fast(0.5);
  // Two have shown a rate: the others come to the GPU only now.
  for (const Index i : {0, 1, 2, 3}) program.arrive(i);
  for (const Index i : {2, 3}) board.executed(i, gpu, slow);
  EXPECT_FALSE(board.report().devices[1].rate_is_measured);
  EXPECT_LT(board.rates().expected(kParams, gpu)->value(), fast.value())
      << "what the first ones showed";
  board.executed(0, gpu, slow);
  EXPECT_TRUE(board.report().devices[1].rate_is_measured);
  EXPECT_EQ(board.rates().expected(kParams, gpu)->value(), slow.value());
  for (const Index i : {0, 1, 2, 3}) program.arrive(i);
  board.executed(2, gpu, fast);
  EXPECT_EQ(board.rates().expected(kParams, gpu)->value(), fast.value()) << "at home by now";
}

/// A lock under which others come to the board while it is given up.
class LentLock {
 public:
  explicit LentLock(std::function<void()> others) : others_(std::move(others)) {}
  void unlock() {
    EXPECT_TRUE(is_held_);
    is_held_ = false;
    ++lent_;
    others_();
  }
  void lock() {
    EXPECT_FALSE(is_held_);
    is_held_ = true;
  }
  bool is_held() const { return is_held_; }
  int lent() const { return lent_; }

 private:
  std::function<void()> others_;
  bool is_held_ = true;
  int lent_ = 0;
};

// Who plans holds no lock: what arrives meanwhile goes by the plan before, to the end of its
// update.
TEST(UpdateBoard, UpdatesThatArriveWhileAPlanIsMadeGoByTheOneBefore) {
  Program program("gpu-only", surroundings(1));
  program.step();
  UpdateBoard& board = program.board;
  LentLock second_lock([] {});
  PlacedUpdate second;
  LentLock lock([&] { second = board.place(program.task(1), second_lock); });
  const PlacedUpdate first = board.place(program.task(0), lock);
  EXPECT_EQ(lock.lent(), 1);
  EXPECT_TRUE(lock.is_held());
  EXPECT_EQ(second_lock.lent(), 0) << "two would plan";
  EXPECT_TRUE(second.place.device.is_cpu());
  EXPECT_FALSE(first.place.device.is_cpu());
  EXPECT_FALSE(board.planned(second.index).device.is_cpu());
  board.executed(first.index, {.gpu = 0}, units::Seconds(1));
  board.executed(second.index, {}, units::Seconds(1));
  LentLock later([] {});
  const PlacedUpdate third = board.place(program.task(2), later);
  EXPECT_EQ(later.lent(), 0) << "the plan is made";
  board.executed(third.index, {.gpu = 0}, units::Seconds(1));
  program.arrive(0);
  const StepReport last = board.report().steps.back();
  EXPECT_EQ(last.step, 2);
  EXPECT_EQ(last.moved, 0) << "all ran where they were placed";
  EXPECT_EQ(last.planned_gpu.value(), 2 * kParams);
}

TEST(UpdateBoard, SlotsAreWhatResidentsLeave) {
  // 1 M parameters are 12 MB of states: 5 in 61 MB.
  Program streamed("gpu-only", surroundings(1, 61e6), {.residents = false});
  streamed.step();
  EXPECT_EQ(streamed.board.plans().limits(0).slots, 1) << "before there is a plan";
  streamed.step();
  EXPECT_EQ(streamed.board.plans().limits(0).slots, 5);
  Surroundings around = surroundings(1, 61e6);
  around.gpus[0].memory.resident = units::Bytes(25e6);
  Program resident("gpu-only", around);
  resident.step();
  resident.step();
  Index residents = 0;
  for (Index i = 0; i < kSubgroups; ++i) residents += resident.board.planned(i).is_resident ? 1 : 0;
  EXPECT_GT(residents, 0);
  EXPECT_EQ(resident.board.plans().limits(0).slots, 5 - residents);
  // 12 MB at 20 GB/s, and 10 us of latency.
  EXPECT_NEAR(resident.board.rates().write_back_time(kParams, {.gpu = 0}).value(), 0.61e-3, 1e-9);
}

TEST(UpdateBoard, RefusesUnknownPoliciesAndOptionsOutOfRange) {
  EXPECT_THROW(UpdateBoard("doss", {}, surroundings(1)), Error);
  EXPECT_THROW(UpdateBoard("dos", {.share = 1.5}, surroundings(1)), Error);
}

// Updates that went ahead ran beside backward; what is made again comes all at once.
TEST(UpdateBoard, ARedoIsOfTheSameStepAndFollowsThePlan) {
  Program program("dos", surroundings(1));
  UpdateBoard& board = program.board;
  for (Index step = 1; step <= 4; ++step)
    for (Index i = 0; i < kSubgroups; ++i) {
      const PlacedUpdate placed = board.place(program.task(i), NoLock());
      board.executed(placed.index, placed.place.device, units::Seconds(kParams / kCpuRate));
    }
  ASSERT_TRUE(board.plans().plan());
  program.arrive(0);
  EXPECT_TRUE(board.prefers_earliest_end());
  for (Index i = 1; i < kSubgroups; ++i) program.arrive(i);
  ASSERT_EQ(board.subgroups().step(), 5);
  Index on_gpu = 0;
  for (Index i = 0; i < kSubgroups; ++i) {
    UpdateTask redone = program.task(i);
    redone.is_redone = true;
    const PlacedUpdate placed = board.place(redone, NoLock());
    EXPECT_EQ(placed.index, i);
    EXPECT_TRUE(placed.by_plan);
    EXPECT_EQ(placed.place.device, board.planned(i).device);
    on_gpu += placed.place.device.is_cpu() ? 0 : 1;
    board.executed(placed.index, placed.place.device, units::Seconds(kParams / kCpuRate), {},
                   /*is_redone=*/true);
  }
  EXPECT_EQ(board.subgroups().step(), 5);
  EXPECT_GT(on_gpu, 0);
  program.arrive(0);
  EXPECT_EQ(board.subgroups().step(), 6);
}

}  // namespace
}  // namespace dos::sched_starpu::update_board_test
