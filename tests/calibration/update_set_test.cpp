// SPDX-License-Identifier: Apache-2.0
#include "calibration/update_set.hpp"

#include <gtest/gtest.h>

#include "calibration/histories.hpp"
#include "calibration/meter.hpp"
#include "rt/device.hpp"

namespace dos::calibration::update_set_test {
namespace {

class UpdateSets : public ::testing::Test {
 protected:
  rt::Session session_{{.scheduler = "eager", .cpu_workers = 2}};
  rt::Submitter submitter_{session_};
};

TEST_F(UpdateSets, OfEveryKindAreUpdatedOnTheirWorker) {
  const int worker = rt::cpu_workers().back();
  for (const codelets::UpdateKind& kind : codelets::all_update_kinds()) {
    const UpdateSet set(submitter_, kind, 3, 65);
    EXPECT_DOUBLE_EQ(set.params(), 3 * 65);
    submitter_.set_tag({.phase = rt::Phase::kUpdate, .step = 1});
    set.submit_updates(worker);
    const std::vector<rt::TaskRecord> records = submitter_.profile().take(1);
    ASSERT_EQ(records.size(), 3U);
    for (const rt::TaskRecord& record : records) {
      EXPECT_EQ(record.worker, worker);
      EXPECT_EQ(record.codelet, &codelets::update_codelet(kind));
    }
    set.submit_streams();
    EXPECT_EQ(submitter_.profile().take(1).size(), 3U);
    submitter_.set_tag({});
  }
}

TEST_F(UpdateSets, OfAdamWMoveWhatTheModelSays) {
  for (const DType type : {DType::kF32, DType::kBF16}) {
    const codelets::UpdateKind kind{.rule = 0, .gradient = type, .working = type};
    const UpdateSet set(submitter_, kind, 2, 50);
    EXPECT_DOUBLE_EQ(set.traffic_bytes(), 100 * 28);  // perfmodels::kCpuUpdateTraffic
    EXPECT_EQ(stored_bytes_per_parameter(kind), 16);
  }
}

TEST_F(UpdateSets, MetersCountRoundsAndRuns) {
  Index runs = 0;
  const Meter meter(submitter_,
                    {.rounds = 4, .attempts = 2, .most_spread = 1e9, .least_seconds = 0});
  const UpdateSet set(submitter_, {.rule = 0, .gradient = DType::kF32, .working = DType::kF32}, 1,
                      1);
  const Summary summary = meter.rate(1, [&] {
    set.submit_updates(rt::kAnyCpuWorker);
    ++runs;
  });
  EXPECT_EQ(runs, 2 + 4);
  EXPECT_EQ(summary.rounds, 4);
  EXPECT_GT(summary.median, 0);
}

}  // namespace
}  // namespace dos::calibration::update_set_test
