// SPDX-License-Identifier: Apache-2.0
#include "sched_starpu/ledger.hpp"

#include <gmock/gmock.h>

namespace dos::sched_starpu::ledger_test {
namespace {

using testing::ElementsAre;

constexpr Index kParams = 1000;
constexpr Place kOnCpu{};
constexpr Place kStreamed{.device = {.gpu = 0}};
constexpr Place kResident{.device = {.gpu = 0}, .is_resident = true};
constexpr Place kElsewhere{.device = {.gpu = 1}, .is_resident = true};

/// Bytes a parameter that differ, so that none is taken for another.
UpdateTask task(Index user = -1) {
  return {.params = kParams,
          .cost = {.state = units::BytesPerParam(12),
                   .weight = units::BytesPerParam(2),
                   .gradient = units::BytesPerParam(3),
                   .host_gradient = units::BytesPerParam(5),
                   .host_parameter = units::BytesPerParam(7),
                   .host_weight = units::BytesPerParam(11)},
          .user = user};
}

/// Of one subgroup, on two GPUs.
class OneSubgroup : public testing::Test {
 protected:
  /// A step in which it is placed, and runs there.
  bool step(const Place& place, Index user = -1) {
    ledger_.begin_step(++step_);
    ledger_.placed(0, task(user), place);
    return ledger_.ran(0, task(user), place.device, {});
  }
  /// Bytes a parameter that the step has moved.
  double in(Index gpu = 0) const { return needed(gpu).in.value() / kParams; }
  double out(Index gpu = 0) const { return needed(gpu).out.value() / kParams; }
  Index home() const { return ledger_.homes(1).front(); }

  Ledger ledger_{/*cpu_workers=*/4, /*gpus=*/2};
  Index step_ = 0;

 private:
  Traffic needed(Index gpu) const {
    return ledger_.step(step_)->needed[static_cast<std::size_t>(gpu)];
  }
};

TEST_F(OneSubgroup, TheCpuSendsParametersAndGetsGradients) {
  step(kOnCpu, /*user=*/1);
  EXPECT_EQ(in(1), 2);
  EXPECT_EQ(out(1), 3);
  EXPECT_EQ(in(0) + out(0), 0) << "the user's GPU alone";
  step(kOnCpu);
  EXPECT_EQ(in(0), 2) << "of many users the subgroups' GPUs in turn";
}

TEST_F(OneSubgroup, StreamedStatesComeAndGo) {
  for (int i = 0; i < 2; ++i) {
    step(kStreamed);
    EXPECT_EQ(in(), 12 + 5);
    EXPECT_EQ(out(), 12 + 11);
    EXPECT_EQ(home(), -1);
  }
}

TEST_F(OneSubgroup, ResidentsComeOnce) {
  step(kResident);
  EXPECT_EQ(in(), 12 + 5);
  EXPECT_EQ(out(), 7);
  EXPECT_EQ(home(), 0);
  step(kResident);
  EXPECT_EQ(in(), 5);
  EXPECT_EQ(out(), 7);
}

TEST_F(OneSubgroup, ResidentsThatLeaveGoHomeFirst) {
  step(kResident);
  step(kElsewhere);
  EXPECT_EQ(out(0), 12);
  EXPECT_EQ(in(1), 12 + 5);
  EXPECT_EQ(home(), 1);
  step(kOnCpu, /*user=*/0);
  EXPECT_EQ(out(1), 12);
  EXPECT_EQ(home(), -1);
}

TEST_F(OneSubgroup, AResidentArrivesUntilItsStatesAreThere) {
  ledger_.begin_step(1);
  EXPECT_TRUE(ledger_.placed(0, task(), kResident).arrives);
  ledger_.ran(0, task(), {}, MoveReason::kOverdue);
  ledger_.begin_step(2);
  EXPECT_TRUE(ledger_.placed(0, task(), kResident).arrives) << "the CPU had it";
  ledger_.ran(0, task(), kResident.device, {});
  ledger_.begin_step(3);
  EXPECT_FALSE(ledger_.placed(0, task(), kResident).arrives);
  EXPECT_TRUE(ledger_.placed(0, task(), kElsewhere).arrives);
  EXPECT_FALSE(ledger_.placed(0, task(), kStreamed).arrives);
}

TEST_F(OneSubgroup, ATimeHoldsWhatMemoryTakesWhereItWasNotBefore) {
  EXPECT_FALSE(step(kOnCpu));
  EXPECT_TRUE(step(kStreamed));
  EXPECT_FALSE(step(kStreamed));
  EXPECT_TRUE(step(kResident)) << "it comes to stay";
  EXPECT_FALSE(step(kResident));
  EXPECT_FALSE(step(kOnCpu)) << "of the CPU never";
}

TEST_F(OneSubgroup, ATimeHoldsWhatOthersThatComeTake) {
  step(kStreamed);
  ledger_.begin_step(++step_);
  ledger_.placed(0, task(), kStreamed);
  ledger_.placed(1, task(), kResident);
  EXPECT_TRUE(ledger_.ran(0, task(), kStreamed.device, {}));
  ledger_.begin_step(++step_);
  ledger_.placed(0, task(), kStreamed);
  EXPECT_FALSE(ledger_.ran(0, task(), kStreamed.device, {}));
}

TEST_F(OneSubgroup, WhatRunsElsewhereIsCountedThere) {
  ledger_.begin_step(++step_);
  ledger_.placed(0, task(), kResident);
  EXPECT_TRUE(ledger_.ran(0, task(), {.gpu = 1}, MoveReason::kSooner));
  EXPECT_EQ(in(1), 12 + 5);
  EXPECT_EQ(out(1), 12 + 11) << "nobody planned it to stay there";
  EXPECT_EQ(in(0) + out(0), 0);
  EXPECT_EQ(home(), -1);
  const StepReport report = *ledger_.step(step_);
  EXPECT_EQ(report.moved, 1);
  EXPECT_EQ(report.sooner, 1);
  EXPECT_EQ(report.to_cpu.value() + report.to_gpu.value(), 0) << "from GPU to GPU";
}

TEST_F(OneSubgroup, WhatEndsLateCountsForTheNextStep) {
  ledger_.begin_step(1);
  ledger_.placed(0, task(), kOnCpu);
  ledger_.begin_step(2);
  ledger_.ran(0, task(), {}, {});
  EXPECT_EQ(ledger_.step(1)->updates, 0);
  EXPECT_EQ(ledger_.step(2)->updates, 1);
}

TEST_F(OneSubgroup, AFlushIsOfTheStepWhoseUpdateIsToCome) {
  const units::Bytes bytes(2e6);
  ledger_.flushed(bytes, /*is_next=*/true);
  ledger_.begin_step(1);
  ledger_.flushed(bytes, /*is_next=*/false);
  ledger_.flushed(bytes, /*is_next=*/true);
  ledger_.waited(units::Seconds(8));
  EXPECT_EQ(ledger_.step(1)->flushed.value(), 4e6);
  EXPECT_EQ(ledger_.step(1)->waited.value(), 2) << "of four workers";
  ledger_.begin_step(2);
  EXPECT_EQ(ledger_.step(2)->flushed.value(), 2e6);
  EXPECT_EQ(ledger_.all().flushed.value(), 6e6);
}

TEST(Ledger, KeepsTheLastStepsAndTheSumOfAll) {
  Tuning tuning;
  tuning.reported_steps = 2;
  Ledger ledger(1, 0, tuning);
  EXPECT_EQ(ledger.all().step, 0);
  EXPECT_FALSE(ledger.step(0).has_value());
  for (Index step = 1; step <= 4; ++step) {
    ledger.begin_step(step);
    ledger.placed(0, task(), kOnCpu);
    ledger.ran(0, task(), {}, {});
  }
  ASSERT_EQ(ledger.last().size(), 2U);
  EXPECT_EQ(ledger.last().front().step, 2);
  EXPECT_FALSE(ledger.step(1).has_value()) << "too long ago";
  EXPECT_TRUE(ledger.step(4).has_value()) << "this one";
  EXPECT_FALSE(ledger.step(5).has_value()) << "to come";
  EXPECT_EQ(ledger.all().step, 4);
  EXPECT_EQ(ledger.all().updates, 4);
  EXPECT_EQ(ledger.all().total.value(), 4 * kParams);
}

TEST(Ledger, SubgroupsThatWereNeverPlacedAreAtHome) {
  Ledger ledger(1, 1);
  EXPECT_THAT(ledger.homes(2), ElementsAre(-1, -1));
  ledger.begin_step(1);
  ledger.placed(1, task(), kResident);
  EXPECT_THAT(ledger.homes(3), ElementsAre(-1, -1, -1)) << "it has not run";
  ledger.ran(1, task(), kResident.device, {});
  EXPECT_THAT(ledger.homes(3), ElementsAre(-1, 0, -1));
}

}  // namespace
}  // namespace dos::sched_starpu::ledger_test
