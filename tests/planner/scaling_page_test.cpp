// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "base/file.hpp"
#include "config/plan_model.hpp"
#include "planner/scaling.hpp"
#include "requests.hpp"

namespace dos::planner {
namespace {

/// The page holds what the program prints: `plan --scaling`.
TEST(Scaling, ThePageIsUpToDate) {
  const std::string page =
      read_text(test::machine_folder() / ".." / ".." / "docs" / "performance" / "scaling.md");
  const std::string tables = scaling_tables(test::machine_folder(), config::find_planned_model);
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
  EXPECT_GT(rows, 20U);
}

}  // namespace
}  // namespace dos::planner
