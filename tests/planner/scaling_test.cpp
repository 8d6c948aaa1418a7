// SPDX-License-Identifier: Apache-2.0
#include "planner/scaling.hpp"

#include <gtest/gtest.h>

#include "config/plan_model.hpp"
#include "requests.hpp"

namespace dos::planner::scaling_test {
namespace {

TEST(Scaling, FitsWithEverythingShared) {
  const auto runs = scaling_runs(test::machine_folder(), config::find_planned_model);
  ASSERT_EQ(runs.size(), 4U);
  for (const Request& run : runs) {
    const Forecast result = forecast(run);
    EXPECT_TRUE(result.fits()) << run.model.name;
    EXPECT_EQ(result.layout.devices, run.ranks);
  }
}

TEST(Scaling, TheLargestMicroBatchFitsAndTwiceItDoesNot) {
  Request request =
      with_largest_micro_batch(scaling_runs(test::machine_folder(), config::find_planned_model)[0]);
  EXPECT_TRUE(forecast(request).fits());
  request.micro_batch *= 2;
  EXPECT_FALSE(forecast(request).fits());
  // Not even one sequence fits: one is what is tried.
  request = test::request("rtx4090", "llama-70b", 1);
  EXPECT_EQ(with_largest_micro_batch(request).micro_batch, 1);
}

}  // namespace
}  // namespace dos::planner::scaling_test
