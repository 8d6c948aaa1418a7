// SPDX-License-Identifier: Apache-2.0
#include "sched_starpu/plan_trial.hpp"

#include <gmock/gmock.h>

#include "sched_starpu/update_program.hpp"

namespace dos::sched_starpu::plan_trial_test {
namespace {

using testing::HasSubstr;

constexpr units::Seconds kPlanned{1.0};
constexpr units::Seconds kOnCpu{2.0};
const Tuning kTuning;

StepTimes times(double step, double updates) {
  return {.step = units::Seconds(step), .updates = units::Seconds(updates)};
}

/// The trial after steps by the plan whose updates take `excess` times as long as planned.
PlanTrial after_slow_steps(Index count, double excess = 1.5, double step = 3) {
  PlanTrial trial;
  for (Index i = 0; i < count; ++i)
    EXPECT_EQ(trial.see(times(step, excess), kPlanned, kOnCpu), i + 1 == kTuning.trial_steps);
  return trial;
}

TEST(PlanTrial, APlanThatHoldsIsNotTried) {
  PlanTrial trial;
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(trial.see(times(3, 1.09), kPlanned, kOnCpu));
  EXPECT_FALSE(trial.is_on_cpu());
  EXPECT_EQ(trial.in_words(), "");
}

TEST(PlanTrial, SlowStepsNowAndThenAreNoFaultOfThePlan) {
  PlanTrial trial;
  for (int i = 0; i < 100; ++i)
    EXPECT_FALSE(trial.see(times(3, i % kTuning.trial_steps == 0 ? 1.0 : 1.5), kPlanned, kOnCpu));
  EXPECT_FALSE(trial.is_on_cpu());
}

TEST(PlanTrial, SlowStepsOneAfterAnotherAre) {
  EXPECT_FALSE(after_slow_steps(kTuning.trial_steps - 1).is_on_cpu());
  const PlanTrial trial = after_slow_steps(kTuning.trial_steps);
  EXPECT_TRUE(trial.is_on_cpu());
  EXPECT_THAT(trial.in_words(), HasSubstr("1.50 times as long as planned; all updates on the CPU"));
}

TEST(PlanTrial, SoAreStepsThatAreLongerThanTheFirst) {
  PlanTrial trial;
  trial.see_first(units::Seconds(3));
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(trial.see(times(3, 1), kPlanned, kOnCpu));
  for (Index i = 0; i < kTuning.trial_steps; ++i)
    EXPECT_EQ(trial.see(times(3.001, 1), kPlanned, kOnCpu), i + 1 == kTuning.trial_steps);
  EXPECT_THAT(trial.in_words(), HasSubstr("steps took 3.001 s, the first, without a plan, 3 s"));
}

TEST(PlanTrial, WhatTheCpuTakesTooLongForIsNotTried) {
  PlanTrial trial;
  const double step = kOnCpu.value() / (1 - kTuning.trial_gain);
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(trial.see(times(step * 0.999, 2), kPlanned, kOnCpu));
  for (Index i = 0; i < kTuning.trial_steps; ++i)
    EXPECT_EQ(trial.see(times(step * 1.001, 2), kPlanned, kOnCpu), i + 1 == kTuning.trial_steps);
}

constexpr double kJustSlower = 3 * 0.99 + 0.001;  ///< than the CPU must be to win against 3 s
constexpr double kJustFaster = 3 * 0.99 - 0.001;

/// Steps, of which one is as slow as can be: the median decides. Returns what the last one did.
bool see_steps(PlanTrial& trial, double step) {
  EXPECT_FALSE(trial.see(times(100, 2), kPlanned, kOnCpu));
  for (Index i = 2; i < kTuning.trial_steps; ++i)
    EXPECT_FALSE(trial.see(times(step, 2), kPlanned, kOnCpu));
  return trial.see(times(step, 2), kPlanned, kOnCpu);
}

void expect_over(PlanTrial& trial, bool on_cpu) {
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(trial.see(times(9, 9), kPlanned, kOnCpu));
  EXPECT_EQ(trial.is_on_cpu(), on_cpu);
}

TEST(PlanTrial, ThePlanHoldsForGoodWhereTheCpuIsNoFaster) {
  ASSERT_EQ(kTuning.trial_gain, 0.01);
  PlanTrial trial = after_slow_steps(kTuning.trial_steps);
  EXPECT_TRUE(see_steps(trial, kJustSlower)) << "back to the plan";
  EXPECT_THAT(trial.in_words(), HasSubstr("on the CPU steps took 2.971 s, by the plan 3 s"));
  expect_over(trial, false);
}

TEST(PlanTrial, TheCpuHoldsWhereItIsFasterThanThePlanBeforeAndAfter) {
  PlanTrial trial = after_slow_steps(kTuning.trial_steps);
  EXPECT_TRUE(see_steps(trial, kJustFaster)) << "the plan is measured again";
  EXPECT_FALSE(trial.is_on_cpu());
  EXPECT_THAT(trial.in_words(), HasSubstr("the plan is measured again"));
  EXPECT_TRUE(see_steps(trial, 3.001));
  EXPECT_THAT(trial.in_words(), HasSubstr("2.969 s, by the plan 3 s before and 3.001 s after"));
  expect_over(trial, true);
}

TEST(PlanTrial, AMachineThatHasBecomeFasterIsNoReasonForTheCpu) {
  PlanTrial trial = after_slow_steps(kTuning.trial_steps);
  EXPECT_TRUE(see_steps(trial, 2));
  EXPECT_FALSE(see_steps(trial, 2)) << "goes on by the plan";
  EXPECT_THAT(trial.in_words(), HasSubstr("2 s, by the plan 3 s before and 2 s after"));
  expect_over(trial, false);
}

/// A program whose updates end `excess` times as late as planned where a GPU takes part, and whose
/// steps then take `by_plan` seconds, else `on_cpu`.
class Slow : public Program {
 public:
  Slow(double by_plan, double on_cpu, const Surroundings& around = surroundings(1),
       const sched::PolicyOptions& options = {}, const std::string& policy = "dos")
      : Program(policy, around, options), by_plan_(by_plan), on_cpu_(on_cpu) {}

  void step() {
    board.set_time(units::Seconds(now_));
    Program::step();  // arrives and ends at once, but for the last
    const double share = gpu_share();
    const double end =
        share > 0 && board.plans().plan() ? 1.5 * board.plans().plan()->time.value() : 0.01;
    board.set_time(units::Seconds(now_ + end));
    board.executed(0, {}, units::Seconds(kParams / kCpuRate));
    now_ += share > 0 ? by_plan_ : on_cpu_;
  }

 private:
  double by_plan_;
  double on_cpu_;
  double now_ = 1000;
};

void take_steps(Slow& program) {
  for (Index i = 0; i < 6 + 4 * kTuning.trial_steps; ++i) program.step();
}

TEST(PlanTrial, StepsThatAreShorterWithoutTheGpuStayWithoutIt) {
  Slow program(/*by_plan=*/3, /*on_cpu=*/2.9);
  program.step();
  program.step();
  EXPECT_GT(program.gpu_share(), 0.3);
  take_steps(program);
  EXPECT_EQ(program.gpu_share(), 0);
  EXPECT_THAT(program.board.report().plan,
              HasSubstr("on the CPU steps took 2.9 s, by the plan 3 s before and 3 s after"));
}

TEST(PlanTrial, ElseThePlanHoldsAgain) {
  Slow program(/*by_plan=*/3, /*on_cpu=*/3);
  program.step();
  program.step();
  const double share = program.gpu_share();
  take_steps(program);
  EXPECT_EQ(program.gpu_share(), share);
  EXPECT_THAT(program.board.report().plan, HasSubstr("times as long as planned"));
}

TEST(PlanTrial, StepsThatAreShorterThanTheCpusUpdatesAreNotDoubted) {
  // 40 M parameters at 8 x 0.1 G/s.
  Slow program(/*by_plan=*/0.0499, /*on_cpu=*/0.01);
  take_steps(program);
  EXPECT_GT(program.gpu_share(), 0);
}

TEST(PlanTrial, WhatWasAskedForIsNotTried) {
  for (const sched::PolicyOptions& options :
       {sched::PolicyOptions{.share = 0.5}, sched::PolicyOptions{.stride = 2}}) {
    Slow program(3, 1, surroundings(1), options);
    take_steps(program);
    EXPECT_GT(program.gpu_share(), 0);
  }
  Slow program(3, 1, surroundings(1), {}, "dos-stride");
  take_steps(program);
  EXPECT_GT(program.gpu_share(), 0) << "a policy that does not adapt";
}

TEST(PlanTrial, ResidentsDoNotMoveForIt) {
  Surroundings around = surroundings(1);
  around.gpus[0].memory.resident = units::Bytes(kSubgroups / 4 * 12.0 * kParams);
  Slow program(3, 1, around);
  take_steps(program);
  EXPECT_GT(program.gpu_share(), 0);
}

}  // namespace
}  // namespace dos::sched_starpu::plan_trial_test
