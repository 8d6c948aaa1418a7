// SPDX-License-Identifier: Apache-2.0
#include "rt/profile.hpp"

#include <gmock/gmock.h>

#include <atomic>
#include <map>
#include <set>
#include <string>
#include <thread>

#include "rt/tasks.hpp"

namespace dos::rt::profile_test {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

TaskRecord record(Phase phase, double start_us, double end_us) {
  TaskRecord result;
  result.tag.phase = phase;
  result.start_us = start_us;
  result.end_us = end_us;
  return result;
}

struct BusyCase {
  const char* what;
  std::vector<std::pair<double, double>> intervals_us;
  double busy_ms;
};

// The numbers are sums of powers of two times 1000, so that the results are exact.
TEST(BusyMs, IsTheUnionOfTheIntervals) {
  const BusyCase cases[] = {
      {"none", {}, 0},
      {"one", {{1000, 3000}}, 2},
      {"empty", {{1000, 1000}}, 0},
      {"apart", {{1000, 2000}, {4000, 8000}}, 5},
      {"touching", {{1000, 2000}, {2000, 3000}}, 2},
      {"overlapping", {{1000, 3000}, {2000, 5000}}, 4},
      {"nested", {{1000, 9000}, {2000, 3000}}, 8},
      {"nested, then apart", {{1000, 9000}, {2000, 3000}, {10000, 11000}}, 9},
      {"after a nested one, overlapping the outer", {{1000, 9000}, {2000, 3000}, {8000, 10000}}, 9},
      {"equal", {{1000, 2000}, {1000, 2000}}, 1},
      {"same start", {{1000, 2000}, {1000, 5000}}, 4},
      {"unsorted", {{7000, 8000}, {1000, 3000}, {2000, 4000}}, 4},
  };
  for (const BusyCase& c : cases) {
    SCOPED_TRACE(c.what);
    std::vector<TaskRecord> records;
    for (const auto& [start, end] : c.intervals_us) {
      records.push_back(record(Phase::kForward, start, end));
    }
    EXPECT_EQ(busy_ms(records, Phase::kForward), c.busy_ms);
    EXPECT_EQ(busy_ms(records, Phase::kBackward), 0);
  }
}

TEST(BusyMs, LooksAtOnePhaseAlone) {
  const std::vector<TaskRecord> records{record(Phase::kForward, 0, 4000),
                                        record(Phase::kUpdate, 2000, 3000)};
  EXPECT_EQ(busy_ms(records, Phase::kForward), 4);
  EXPECT_EQ(busy_ms(records, Phase::kUpdate), 1);
  EXPECT_EQ(busy_ms(records, Phase::kReduce), 0);
}

TEST(Phase, NamesAreDistinct) {
  std::set<std::string> names;
  for (const Phase phase : kPhases) names.insert(name_of(phase));
  EXPECT_THAT(names, SizeIs(kPhases.size()));
}

TaskRecord of_step(Index step, double start_us) {
  TaskRecord result = record(Phase::kUpdate, start_us, start_us + 1);
  result.tag.step = step;
  return result;
}

TEST(Profile, TakeReturnsAStepOnceInOrderOfCompletion) {
  Profile profile;
  EXPECT_THAT(profile.take(0), IsEmpty());
  for (const Index step : {1, 2, 1}) profile.expect_task({Phase::kUpdate, step});
  profile.complete_task(of_step(1, 9));
  profile.complete_task(of_step(2, 5));
  profile.complete_task(of_step(1, 7));
  const std::vector<TaskRecord> records = profile.take(1);
  ASSERT_THAT(records, SizeIs(2));
  EXPECT_EQ(records[0].start_us, 9);
  EXPECT_EQ(records[1].start_us, 7);
  EXPECT_THAT(profile.take(1), IsEmpty());
  EXPECT_THAT(profile.take(2), SizeIs(1));
}

TEST(Profile, TakeBlocksUntilTheStepIsCompleteWhateverTheOthersDo) {
  Profile profile;
  for (const Index step : {1, 1, 2}) profile.expect_task({Phase::kUpdate, step});
  std::atomic<bool> taken{false};
  std::vector<TaskRecord> records;
  std::thread taker([&] {
    records = profile.take(1);
    taken = true;
  });
  profile.complete_task(of_step(1, 1));
  test::sleep_ms(20);
  EXPECT_FALSE(taken);
  profile.complete_task(of_step(1, 2));
  taker.join();
  EXPECT_THAT(records, SizeIs(2));
  profile.complete_task(of_step(2, 3));
}

TEST(Profile, RecordsWhatTasksWereAndWhenTheyRan) {
  Session session({.scheduler = "", .cpu_workers = 2});
  const Handle a(session, {.name = "a", .count = 1});
  const Handle b(session, {.name = "b", .count = 1});
  const test::Body slow = [](const TaskView&) { test::sleep_ms(2); };
  Submitter submitter(session);
  const TaskTag tags[] = {{Phase::kForward, 3}, {Phase::kBackward, 3}, {Phase::kForward, 4}};
  for (const TaskTag& tag : tags) {
    submitter.set_tag(tag);
    for (int i = 0; i < 5; ++i) {
      test::submit_body(submitter, slow, {&a}, {.label = "tensor a"});
      test::submit_body(submitter, slow, {&b}, {.label = "tensor b"});
    }
  }
  const std::vector<TaskRecord> third = submitter.profile().take(3);
  ASSERT_THAT(third, SizeIs(20));
  std::map<std::string, int> labels;
  std::map<Phase, int> phases;
  for (const TaskRecord& task : third) {
    EXPECT_EQ(task.codelet, &test::body_codelet());
    EXPECT_EQ(task.tag.step, 3);
    EXPECT_GE(task.worker, 0);
    EXPECT_LT(task.worker, session.workers());
    EXPECT_GE(task.end_us - task.start_us, 2000);
    ++labels[task.label];
    ++phases[task.tag.phase];
  }
  EXPECT_EQ(labels, (std::map<std::string, int>{{"tensor a", 10}, {"tensor b", 10}}));
  EXPECT_EQ(phases, (std::map<Phase, int>{{Phase::kForward, 10}, {Phase::kBackward, 10}}));
  // Ten tasks of a phase, at most two at a time, each at least 2 ms.
  EXPECT_GE(busy_ms(third, Phase::kForward), 10);
  EXPECT_THAT(submitter.profile().take(4), SizeIs(10));
}

TEST(Profile, TakeWaitsForRunningTasks) {
  Session session({.scheduler = "", .cpu_workers = 2});
  const Handle buffer(session, {.name = "b", .count = 1});
  std::atomic<int> done{0};
  const test::Body slow = [&](const TaskView&) {
    test::sleep_ms(20);
    ++done;
  };
  Submitter submitter(session);
  for (int i = 0; i < 3; ++i) test::submit_body(submitter, slow, {&buffer});
  const std::vector<TaskRecord> records = submitter.profile().take(0);
  EXPECT_EQ(done, 3);
  ASSERT_THAT(records, SizeIs(3));
  for (std::size_t i = 1; i < records.size(); ++i) {
    EXPECT_LE(records[i - 1].end_us, records[i].start_us);
  }
}

}  // namespace
}  // namespace dos::rt::profile_test
