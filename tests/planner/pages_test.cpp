// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "base/file.hpp"
#include "config/plan_model.hpp"
#include "planner/checkpoint_forecast.hpp"
#include "planner/scaling.hpp"
#include "planner/validation.hpp"
#include "requests.hpp"

namespace dos::planner::pages_test {
namespace {

/// A page holds what a program prints.
void expect_on_page(const char* name, const std::string& tables, std::size_t least_rows) {
  const std::string page =
      read_text(test::machine_folder() / ".." / ".." / "docs" / "performance" / name);
  std::size_t rows = 0;
  for (std::size_t begin = 0; begin < tables.size();) {
    const std::size_t end = tables.find('\n', begin);
    const std::string line = tables.substr(begin, end - begin);
    if (line.starts_with("|")) {
      EXPECT_THAT(page, testing::HasSubstr(line));
      ++rows;
    }
    begin = end + 1;
  }
  EXPECT_GT(rows, least_rows);
}

TEST(Pages, OfValidationIsUpToDate) {
  expect_on_page("model-validation.md", validation_tables(test::machine_folder()), 20);
}

TEST(Pages, OfScalingIsUpToDate) {
  expect_on_page("scaling.md", scaling_tables(test::machine_folder(), config::find_planned_model),
                 20);
}

TEST(Pages, OfCheckpointsIsUpToDate) {
  expect_on_page("checkpoints.md",
                 checkpoint_tables(test::machine_folder(), config::find_planned_model), 20);
}

}  // namespace
}  // namespace dos::planner::pages_test
