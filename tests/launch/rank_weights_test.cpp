// SPDX-License-Identifier: Apache-2.0
#include "launch/rank_weights.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "perfmodels/machine.hpp"

namespace dos::launch::rank_weights_test {
namespace {

using testing::ElementsAre;

perfmodels::Rates rates(const char* machine, Index ranks) {
  return perfmodels::rates_of(perfmodels::find_machine(machine, DOS_MACHINE_FOLDER), ranks);
}

TEST(RankWeights, ACpuUpdatesAtItsRate) {
  perfmodels::Rates cpu = rates("h100-4x", 4);
  cpu.gpus.clear();
  EXPECT_NEAR(update_rate(cpu).value(), cpu.cpu_update.value(), 1e-6 * cpu.cpu_update.value());
}

TEST(RankWeights, AGpuAndItsLinkAdd) {
  const perfmodels::Rates both = rates("h100-4x", 4);
  perfmodels::Rates cpu = both;
  cpu.gpus.clear();
  EXPECT_GT(update_rate(both), update_rate(cpu));
  // 16 bytes a parameter cross the link to the GPU.
  EXPECT_LT(update_rate(both).value(),
            both.cpu_update.value() + both.gpus.front().h2d.value() / 16);
}

TEST(RankWeights, AreRelativeToTheFastest) {
  EXPECT_THAT(relative_weights({2e9, 1.2345e9, 2e6}),
              ElementsAre(1, testing::DoubleEq(0.617), testing::DoubleEq(0.001)));
}

}  // namespace
}  // namespace dos::launch::rank_weights_test
