// SPDX-License-Identifier: Apache-2.0
#include "sched_starpu/plan_keeper.hpp"

#include <gmock/gmock.h>

#include <numeric>
#include <optional>

#include "base/error.hpp"
#include "sched_starpu/update_program.hpp"

namespace dos::sched_starpu::plan_keeper_test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

constexpr Device kGpu{.gpu = 0};

/// Steps of equal subgroups on a node of one GPU that holds `memory` bytes for residents, and
/// `update` while it updates.
class Keeping {
 public:
  explicit Keeping(const std::string& policy, double memory = 0,
                   const sched::PolicyOptions& options = {}, double update = 1e9,
                   const Tuning& tuning = {})
      : keeper(policy, options, tuning), rates_(node(memory, update), /*uses_gpus=*/true) {}

  void suggest(double cpu_rate = kCpuRate) {
    rates_.suggest(kParams, {}, units::Seconds(kParams / cpu_rate));
    rates_.suggest(kParams, kGpu, units::Seconds(kParams / kGpuRate));
  }
  /// The CPU's rate follows.
  void see(double cpu_rate) {
    for (Index i = 0; i <= Tuning::recent_updates; ++i)
      rates_.see(kParams, {}, units::Seconds(kParams / cpu_rate), false);
  }
  /// Backward's tasks on the GPU take so long, and more updates come beside them than anybody
  /// takes.
  void wait_for_tasks(double seconds) {
    rates_.see_other(kGpu, units::Seconds(seconds));
    rates_.begin_step(Beside::kBackward, units::Params(1e12), units::Params(1e6));
  }
  void begin_step(const StepTimes& last = {}) { keeper.begin_step(rates_, homes, last); }
  PlanOrder order() {
    sched::Problem problem;
    std::vector<Index> subgroups(homes.size());
    std::iota(subgroups.rbegin(), subgroups.rend(), Index{0});
    for (std::size_t i = 0; i < homes.size(); ++i)
      problem.subgroups.push_back({.params = kParams, .depth = static_cast<Index>(i)});
    problem.rates = rates_.for_plan({});
    problem.memory = {rates_.around().gpus.front().memory};
    for (const Index subgroup : subgroups)
      problem.homes.push_back(homes[static_cast<std::size_t>(subgroup)]);
    return keeper.order(std::move(problem), std::move(subgroups));
  }
  /// Whether that made a plan.
  bool begin_step_and_plan() {
    begin_step();
    if (!keeper.is_due()) return false;
    keeper.adopt(carry_out(order()));
    return true;
  }
  /// All states are where the plan has them.
  void settle() {
    for (std::size_t i = 0; i < homes.size(); ++i)
      homes[i] = keeper.goal(static_cast<Index>(i)).stays_on();
  }

  PlanKeeper keeper;
  std::vector<Index> homes = std::vector<Index>(kSubgroups, -1);

 private:
  static Surroundings node(double memory, double update) {
    Surroundings around = surroundings(1, update);
    around.gpus[0].memory.resident = units::Bytes(memory);
    return around;
  }
  DeviceRates rates_;
};

TEST(PlanKeeper, SaysWhyThereIsNoPlanUntilRatesAreKnown) {
  Keeping keeping("dos");
  keeping.begin_step();
  EXPECT_FALSE(keeping.keeper.is_due());
  EXPECT_THAT(keeping.keeper.obstacle(), HasSubstr("no update has run on every device"));
  EXPECT_THAT(keeping.keeper.in_words(), IsEmpty());
  keeping.suggest();
  keeping.begin_step();
  EXPECT_TRUE(keeping.keeper.is_due());
  EXPECT_THAT(keeping.keeper.obstacle(), IsEmpty());
}

TEST(PlanKeeper, OneOrderIsOutAtATime) {
  Keeping keeping("dos");
  keeping.suggest();
  keeping.begin_step();
  PlanOrder first = keeping.order();
  EXPECT_FALSE(keeping.keeper.is_due());
  EXPECT_FALSE(keeping.keeper.has_step_plan());
  // The next step begins before the plan of this one is there, with other rates.
  keeping.begin_step();
  EXPECT_FALSE(keeping.keeper.is_due());
  keeping.keeper.adopt(carry_out(std::move(first)));
  EXPECT_TRUE(keeping.keeper.has_step_plan());
  EXPECT_TRUE(keeping.keeper.is_due()) << "that of the step that began meanwhile";
}

TEST(PlanKeeper, APlanHoldsWhileNothingChanges) {
  Keeping keeping("dos");
  keeping.suggest();
  EXPECT_TRUE(keeping.begin_step_and_plan());
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(keeping.begin_step_and_plan()) << i;
  EXPECT_TRUE(keeping.keeper.has_step_plan());
}

TEST(PlanKeeper, ARateThatChangesOrdersAnother) {
  Keeping keeping("dos");
  keeping.suggest();
  keeping.begin_step_and_plan();
  keeping.see(kCpuRate * 1.04);
  keeping.begin_step();
  EXPECT_FALSE(keeping.keeper.is_due());
  keeping.see(kCpuRate * 1.06);
  keeping.begin_step();
  ASSERT_TRUE(keeping.keeper.is_due());
  const PlanOrder order = keeping.order();
  EXPECT_TRUE(order.replans);
  EXPECT_TRUE(order.current.has_value());
}

TEST(PlanKeeper, UpdatesThatWaitForAGpuHaveAWindowOfTheirOwn) {
  Keeping keeping("dos");
  keeping.suggest();
  keeping.begin_step_and_plan();
  const Index before = keeping.keeper.plan()->window[0];
  // Five times as long as the states of one take to come.
  keeping.wait_for_tasks(5 * (3 * 10e-6 + kParams * 12 / 20e9));
  keeping.begin_step();
  ASSERT_TRUE(keeping.keeper.is_due());
  const PlanOrder order = keeping.order();
  EXPECT_FALSE(order.current.has_value()) << "by the model it is as good";
  keeping.keeper.adopt(carry_out(order));
  EXPECT_EQ(keeping.keeper.plan()->window[0], before + 5);
  EXPECT_FALSE(keeping.begin_step_and_plan());
}

// Of six updates' memory the next forward leaves two; a window of eight is asked for.
TEST(PlanKeeper, UpdatesThatWaitHaveNoClaimOnTheNextForwardsMemory) {
  Keeping keeping("dos", 2 * 12.0 * kParams, {.window = 8}, 6 * 12.0 * kParams);
  keeping.suggest();
  keeping.begin_step();
  PlanOrder order = keeping.order();
  const std::optional<Index> before = order.options.window;
  ASSERT_TRUE(before.has_value());
  EXPECT_LE(*before, 6);
  keeping.keeper.adopt(carry_out(order));
  keeping.wait_for_tasks(5 * (3 * 10e-6 + kParams * 12 / 20e9));
  keeping.begin_step();
  ASSERT_TRUE(keeping.keeper.is_due());
  order = keeping.order();
  EXPECT_EQ(order.options.window, before);
  keeping.keeper.adopt(carry_out(order));
  ASSERT_TRUE(keeping.keeper.plan().has_value());
  EXPECT_GT(keeping.keeper.plan()->window[0], 0) << "all on the CPU";
}

TEST(PlanKeeper, ASubgroupThatComesOrdersAnotherWithoutTheOneThatHolds) {
  Keeping keeping("dos");
  keeping.suggest();
  keeping.begin_step_and_plan();
  keeping.homes.push_back(-1);
  EXPECT_TRUE(keeping.keeper.place(kSubgroups).device.is_cpu()) << "no plan knows it";
  keeping.begin_step();
  ASSERT_TRUE(keeping.keeper.is_due());
  EXPECT_FALSE(keeping.order().current.has_value());
}

// Where disks have states, of which plans know nothing, they do not.
TEST(PlanKeeper, UpdatesThatTakeTooLongHaveTheCpuTried) {
  for (const Index steps : {Tuning{}.trial_steps, Index{0}}) {
    Tuning tuning;
    tuning.trial_steps = steps;
    Keeping keeping("dos", 0, {}, 1e9, tuning);
    keeping.suggest();
    keeping.begin_step_and_plan();
    keeping.begin_step();
    ASSERT_FALSE(keeping.keeper.is_due());
    ASSERT_GT(keeping.keeper.plan()->window[0], 0) << "all on the CPU";
    const double all_on_cpu = kSubgroups * kParams / kCpuRate;
    for (Index i = 0; i < Tuning{}.trial_steps; ++i)
      keeping.begin_step(
          {.step = units::Seconds(9 * all_on_cpu), .updates = units::Seconds(8 * all_on_cpu)});
    EXPECT_EQ(keeping.keeper.is_due(), steps > 0);
  }
}

// What is ordered then is the way to the plan, not another plan.
TEST(PlanKeeper, ResidentsThatAreElsewhereOrderAStepOfTheirOwn) {
  Keeping keeping("dos", /*memory=*/kSubgroups / 4 * 12.0 * kParams);
  keeping.suggest();
  EXPECT_TRUE(keeping.begin_step_and_plan());
  keeping.begin_step();
  ASSERT_TRUE(keeping.keeper.is_due()) << "nothing has moved";
  PlanOrder order = keeping.order();
  EXPECT_FALSE(order.replans);
  keeping.keeper.adopt(carry_out(std::move(order)));
  keeping.settle();
  EXPECT_THAT(keeping.homes, testing::Contains(0));
  EXPECT_FALSE(keeping.begin_step_and_plan());
  for (Index i = 0; i < kSubgroups; ++i)
    EXPECT_EQ(keeping.keeper.place(i).stays_on(), keeping.keeper.goal(i).stays_on()) << i;
  keeping.homes.back() = keeping.homes.back() == 0 ? -1 : 0;
  EXPECT_TRUE(keeping.begin_step_and_plan()) << "somebody has taken one";
}

// The problem has them in another order.
TEST(PlanKeeper, PlacesAreThoseOfTheSubgroups) {
  Keeping keeping("twinflow", /*memory=*/2 * 12.0 * kParams);
  keeping.suggest();
  keeping.begin_step_and_plan();
  std::vector<Index> residents;
  for (Index i = 0; i < kSubgroups; ++i)
    if (keeping.keeper.goal(i).is_resident) residents.push_back(i);
  EXPECT_THAT(residents, testing::ElementsAre(kSubgroups - 2, kSubgroups - 1))
      << "the first of the order are the last of the subgroups";
}

TEST(PlanKeeper, WithoutAPlanOneOfEachIsAtWorkAndThreeRoundsAreFetched) {
  Keeping keeping("dos");
  const GpuWindow::Limits limits = keeping.keeper.limits(0);
  EXPECT_EQ(limits.window, 1);
  EXPECT_EQ(limits.slots, 1);
  EXPECT_EQ(limits.arrivals, 1);
  EXPECT_EQ(limits.residents, Tuning{}.residents_at_once);
  EXPECT_EQ(keeping.keeper.gradients_ahead(4), 12);
  keeping.suggest();
  keeping.begin_step_and_plan();
  EXPECT_GT(keeping.keeper.limits(0).window, 1);
  EXPECT_GT(keeping.keeper.limits(0).arrivals, 1);
}

// Of 12 bytes a parameter in three buffers 2.4 fit, and 0.3 in what no plan uses.
TEST(PlanKeeper, StatesOnTheirWayHomeMayUseTheReserve) {
  Keeping keeping("gpu-only", 0, {.residents = false});
  keeping.suggest();
  keeping.begin_step();
  PlanOrder order = keeping.order();
  constexpr double kOne = 12.0 * kParams;
  order.problem.cost.state_buffers = 3;
  order.problem.memory = {{.update = units::Bytes(2.4 * kOne),
                           .resident = units::Bytes(0),
                           .reserve = units::Bytes(0.3 * kOne)}};
  keeping.keeper.adopt(carry_out(std::move(order)));
  const GpuWindow::Limits limits = keeping.keeper.limits(0);
  EXPECT_EQ(limits.slots, 2);
  EXPECT_EQ(limits.buffers, 3);
  EXPECT_EQ(limits.spare, 2) << "8 buffers in 2.7";
  EXPECT_EQ(limits.largest, kParams);
}

TEST(PlanKeeper, WhatCannotBePlannedHasNoPlacesAndIsSaid) {
  Keeping keeping("gpu-only", 0, {}, /*update=*/0);
  keeping.suggest();
  EXPECT_TRUE(keeping.begin_step_and_plan());
  EXPECT_THAT(keeping.keeper.obstacle(), HasSubstr("0.000 GB free for states"));
  EXPECT_FALSE(keeping.keeper.plan().has_value());
  EXPECT_TRUE(keeping.keeper.place(0).device.is_cpu());
  EXPECT_FALSE(keeping.begin_step_and_plan()) << "nothing has changed";
  EXPECT_THAT(keeping.keeper.obstacle(), HasSubstr("0.000 GB free for states"));
}

// One that took all memory of updates would keep it from the forward that runs beside the last.
TEST(PlanKeeper, AWindowThatIsAskedForLeavesTheNextForwardItsMemory) {
  const auto window_of = [](double resident, Index asked) {
    Keeping keeping("gpu-only", resident * kParams * 12, {.window = asked});
    keeping.suggest();
    EXPECT_TRUE(keeping.begin_step_and_plan()) << keeping.keeper.obstacle();
    return keeping.keeper.plan()->window.front();
  };
  EXPECT_EQ(window_of(6.5, 1000), 6);
  EXPECT_EQ(window_of(6.5, 5), 5);
  const Index useful = window_of(0, 1000);
  EXPECT_GT(useful, 1);
  EXPECT_LT(useful, 6) << "the policy's own choice, whatever is free";
}

TEST(PlanKeeper, NamesTheRatesOfThePlan) {
  Keeping keeping("dos");
  keeping.suggest();
  keeping.begin_step_and_plan();
  EXPECT_THAT(keeping.keeper.in_words(),
              HasSubstr("; rates: 100 Mparam/s a CPU worker, 2.5e+04 device 0"));
  EXPECT_DOUBLE_EQ(keeping.keeper.rate({}).value(), kCpuRate);
  EXPECT_DOUBLE_EQ(keeping.keeper.rate(kGpu).value(), kGpuRate);
}

TEST(PlanKeeper, RefusesOptionsOutOfRange) {
  EXPECT_THROW(PlanKeeper("dos", {.share = 1.5}), Error);
}

}  // namespace
}  // namespace dos::sched_starpu::plan_keeper_test
