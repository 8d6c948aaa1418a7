// SPDX-License-Identifier: Apache-2.0
#include "planner/validation.hpp"

#include <gmock/gmock.h>

#include <cmath>

#include "base/file.hpp"
#include "planner/disk_validation.hpp"
#include "requests.hpp"

namespace dos::planner::validation_test {
namespace {

/// The bar for the model: every published update phase within 10 %.
TEST(Validation, EveryPublishedUpdateIsWithinTenPercent) {
  const auto rows = validate_update(test::machine_folder());
  EXPECT_GE(rows.size(), 24U);
  for (const ValidationRow& row : rows)
    EXPECT_LE(std::abs(row.error()), 0.1)
        << row.machine << ' ' << row.model << ' ' << row.mode << ' ' << row.source << ": measured "
        << row.measured.value() << " s, predicted " << row.predicted.value() << " s";
}

/// Three numbers are chosen with three rows in view: rates of both disks, and host memory.
TEST(Validation, EveryPublishedUpdateFromDisksIsWithinTenPercent) {
  int calibrated = 0;
  const auto rows = validate_disks(test::machine_folder());
  EXPECT_EQ(rows.size(), 8U);
  for (const ValidationRow& row : rows) {
    EXPECT_LE(std::abs(row.error()), row.calibrated ? 0.01 : 0.1)
        << row.model << ' ' << row.mode << ": measured " << row.measured.value() << " s, predicted "
        << row.predicted.value() << " s";
    calibrated += row.calibrated ? 1 : 0;
  }
  EXPECT_EQ(calibrated, 3);
}

TEST(Validation, RowsThatNoRateWasChosenForAreMost) {
  int calibrated = 0;
  const auto rows = validate_update(test::machine_folder());
  for (const ValidationRow& row : rows) calibrated += row.calibrated ? 1 : 0;
  EXPECT_LT(calibrated, static_cast<int>(rows.size()) / 2);
}

TEST(Validation, StrideTwoIsTheBestOfTheSweep) {
  const auto rows = validate_update(test::machine_folder());
  double best = 1e9;
  std::string mode;
  for (const ValidationRow& row : rows) {
    if (row.model != "llama-20b" || row.machine != "h100-4x") continue;
    if (row.predicted.value() < best) mode = row.mode;
    best = std::min(best, row.predicted.value());
  }
  EXPECT_EQ(mode, "stride 2");
}

}  // namespace
}  // namespace dos::planner::validation_test
