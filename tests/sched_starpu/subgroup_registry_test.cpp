// SPDX-License-Identifier: Apache-2.0
#include "sched_starpu/subgroup_registry.hpp"

#include <gmock/gmock.h>

#include <array>

namespace dos::sched_starpu::subgroup_registry_test {
namespace {

using testing::ElementsAre;

constexpr std::size_t kMost = 40;

/// Subgroups by name, with a gradient each.
class Registered : public testing::Test {
 protected:
  UpdateTask task(std::size_t i, int priority = 0) const {
    return {.subgroup = &subgroups_.at(i),
            .gradient = &gradients_.at(i),
            .params = static_cast<Index>(100 + i),
            .priority = priority,
            .cost = {}};
  }
  Index arrive(std::size_t i, int priority = 0) {
    return registry_.arrive(task(i, priority)).index;
  }
  const void* gradient(std::size_t i) const { return &gradients_.at(i); }

  SubgroupRegistry registry_;

 private:
  std::array<char, kMost> subgroups_{};
  std::array<char, kMost> gradients_{};
};

TEST_F(Registered, ASubgroupKeepsTheIndexOfItsFirstArrival) {
  EXPECT_EQ(registry_.size(), 0);
  for (const std::size_t i : {7U, 3U, 5U}) arrive(i);
  EXPECT_EQ(registry_.size(), 3);
  EXPECT_EQ(arrive(5), 2);
  EXPECT_EQ(arrive(3), 1);
  EXPECT_EQ(arrive(9), 3) << "new in the second step";
  EXPECT_EQ(registry_.task(1).params, 103);
}

TEST_F(Registered, AStepBeginsWhenASubgroupIsSeenAgain) {
  EXPECT_EQ(registry_.step(), 0);
  EXPECT_TRUE(registry_.arrive(task(0)).begins_step);
  EXPECT_FALSE(registry_.arrive(task(1)).begins_step);
  EXPECT_EQ(registry_.step(), 1);
  EXPECT_TRUE(registry_.arrive(task(1)).begins_step);
  EXPECT_EQ(registry_.step(), 2);
  EXPECT_TRUE(registry_.has_arrived(1));
  EXPECT_FALSE(registry_.has_arrived(0));
  EXPECT_FALSE(registry_.arrive(task(0)).begins_step);
}

TEST_F(Registered, ATaskIsKnownAsItArrivedLast) {
  arrive(0, /*priority=*/1);
  arrive(0, /*priority=*/8);
  EXPECT_EQ(registry_.task(0).priority, 8);
}

TEST_F(Registered, TheOrderIsByPriorityThenByFirstArrival) {
  EXPECT_THAT(registry_.by_priority(), ElementsAre());
  arrive(0, 1);
  arrive(1, 5);
  arrive(2, 1);
  arrive(3, 9);
  EXPECT_THAT(registry_.by_priority(), ElementsAre(3, 1, 0, 2));
}

TEST_F(Registered, FindsASubgroupByItsGradient) {
  EXPECT_FALSE(registry_.with_gradient(gradient(0)).has_value());
  arrive(4);
  arrive(6);
  EXPECT_EQ(registry_.with_gradient(gradient(6)), 1);
  EXPECT_FALSE(registry_.with_gradient(this).has_value());
}

TEST_F(Registered, KnowsWhenAllUpdatesOfAStepHaveArrived) {
  EXPECT_TRUE(registry_.all_arrived()) << "nothing is expected yet";
  for (std::size_t i = 0; i < kMost; ++i) arrive(i);
  for (std::size_t i = 0; i < kMost; ++i) {
    arrive(i);
    EXPECT_EQ(registry_.all_arrived(), i + 1 == kMost) << i;
  }
  // A step that lacks the last one ends when the first is seen again; the next expects as many.
  for (std::size_t i = 0; i + 1 < kMost; ++i) arrive(i);
  EXPECT_FALSE(registry_.all_arrived());
  for (std::size_t i = 0; i + 1 < kMost; ++i) arrive(i);
  EXPECT_TRUE(registry_.all_arrived());
}

struct Paced {
  double share;    ///< Tuning::kept_pace
  Index ran;       ///< of four that have arrived
  bool kept_pace;  ///< as the next step begins
};

TEST(SubgroupRegistry, KeepsPaceWhenEnoughHaveRunAsTheLastArrives) {
  for (const auto& [share, ran, kept_pace] :
       {Paced{0.5, 1, false}, Paced{0.5, 2, true}, Paced{0.5, 3, true}, Paced{0.25, 1, true},
        Paced{0.25, 0, false}, Paced{0.75, 2, false}, Paced{0.75, 3, true}}) {
    Tuning tuning;
    tuning.kept_pace = share;
    SubgroupRegistry registry(tuning);
    const std::array<char, 4> names{};
    const auto arrive = [&](std::size_t i) {
      registry.arrive({.subgroup = &names.at(i), .params = 1, .cost = {}});
    };
    for (const std::size_t i : {0U, 1U, 2U}) arrive(i);
    for (Index i = 0; i < ran; ++i) registry.ran();
    arrive(3);
    registry.ran();  // too late to count
    arrive(0);
    EXPECT_EQ(registry.kept_pace(), kept_pace) << share << ' ' << ran;
  }
}

TEST_F(Registered, WhatRanInTheStepBeforeKeepsNoPace) {
  for (const std::size_t i : {0U, 1U}) {
    arrive(i);
    registry_.ran();
  }
  for (const std::size_t i : {0U, 1U}) arrive(i);
  EXPECT_TRUE(registry_.kept_pace());
  arrive(0);
  EXPECT_FALSE(registry_.kept_pace()) << "nothing has run in the second step";
}

}  // namespace
}  // namespace dos::sched_starpu::subgroup_registry_test
