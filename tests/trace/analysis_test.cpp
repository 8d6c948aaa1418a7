// SPDX-License-Identifier: Apache-2.0
#include "trace/report/analysis.hpp"

#include <gmock/gmock.h>

#include <algorithm>

#include "base/error.hpp"
#include "sample_trace.hpp"
#include "trace/report/report_json.hpp"

namespace dos::trace::analysis_test {
namespace {

using test::sample_task;
using test::sample_transfer;
using testing::HasSubstr;

Trace empty_trace() {
  Trace trace;
  trace.ranks = {test::sample_manifest()};
  return trace;
}

const WorkerUse& use_of(const std::vector<WorkerUse>& all, int worker) {
  return *std::find_if(all.begin(), all.end(),
                       [&](const WorkerUse& each) { return each.worker == worker; });
}

TEST(Analysis, ATraceWithoutStepsIsAnError) {
  Trace trace = empty_trace();
  EXPECT_THROW(analyse(trace), Error);
  trace.tasks = {sample_task("init", 0, 1, 0, 5)};
  EXPECT_THROW(analyse(trace), Error);
}

TEST(Analysis, StepsFollowEachOther) {
  Trace trace = empty_trace();
  trace.tasks = {sample_task("forward", 1, 1, 10, 20), sample_task("forward", 2, 2, 15, 40),
                 sample_task("update", 1, 1, 20, 30)};
  const std::vector<StepTimes> steps = step_times(trace);
  ASSERT_EQ(steps.size(), 2U);
  EXPECT_EQ(steps[0].duration, 20);
  EXPECT_EQ(steps[1].duration, 10) << "from the end of step 1";
}

TEST(Analysis, EveryMicrosecondOfAWorkerHasOneUse) {
  Trace trace = empty_trace();
  Task fetched = sample_task("update", 1, 0, 40, 60);
  fetched.ready = fetched.taken = 25;
  fetched.data_start = 25;
  fetched.data_end = 40;
  Task late = sample_task("forward", 1, 1, 90, 100);
  late.ready = 80;  // nobody took it for 10
  late.taken = 90;
  trace.tasks = {sample_task("forward", 1, 1, 0, 20), fetched, late};
  trace.transfers = {sample_transfer("m", 0, 1, 1000, 25, 40)};
  trace.spans = {{"checkpoint", 1, 60, 70, 0}};
  const std::vector<WorkerUse> uses = worker_use(trace, {0, 100});
  ASSERT_EQ(uses.size(), 3U);
  const WorkerUse& gpu = use_of(uses, 0);
  EXPECT_EQ(gpu.name, "CUDA 0");
  EXPECT_EQ(gpu.of(Use::kComputing), 20);
  EXPECT_EQ(gpu.of(Use::kData), 15);
  EXPECT_EQ(gpu.of(Use::kCheckpoint), 10);
  EXPECT_EQ(gpu.of(Use::kNoWork), 55);
  const WorkerUse& cpu = use_of(uses, 1);
  EXPECT_EQ(cpu.of(Use::kComputing), 30);
  EXPECT_EQ(cpu.of(Use::kHeldBack), 10);
  EXPECT_EQ(cpu.of(Use::kDevice), 20) << "while the device computed";
  EXPECT_EQ(cpu.device_in_update, 20) << "of an update";
  EXPECT_EQ(cpu.of(Use::kCheckpoint), 10);
  EXPECT_EQ(cpu.of(Use::kNoWork), 30);
  EXPECT_EQ(cpu.phases.at("forward"), 30);
  EXPECT_EQ(gpu.phases.at("update"), 20);
  for (const WorkerUse& use : uses) {
    double sum = 0;
    for (const double each : use.time) sum += each;
    EXPECT_DOUBLE_EQ(sum, 100) << use.name;
  }
}

TEST(Analysis, WhereNothingWasCopiedNobodyWaitedForData) {
  Trace trace = empty_trace();
  Task fetched = sample_task("update", 1, 1, 40, 60);
  fetched.ready = fetched.taken = fetched.data_start = 25;
  fetched.data_end = 40;
  trace.tasks = {fetched};
  const std::vector<WorkerUse> uses = worker_use(trace, {0, 100});
  EXPECT_EQ(use_of(uses, 1).of(Use::kData), 0);
  EXPECT_EQ(use_of(uses, 1).of(Use::kHeldBack), 15);
}

TEST(Analysis, UpdatesBesideOthersAreSlowedByDram) {
  Trace trace = empty_trace();
  for (int i = 0; i < 11; ++i)  // alone: 10
    trace.tasks.push_back(sample_task("update", 1, 1, 100 * i, 100 * i + 10));
  trace.tasks.push_back(sample_task("update", 1, 1, 2000, 2018));  // together: 18
  trace.tasks.push_back(sample_task("update", 1, 2, 2000, 2018));
  trace.tasks.push_back(sample_task("update", 1, 1, 3000, 3018));  // long for another reason
  const std::vector<WorkerUse> uses = worker_use(trace, {0, 4000});
  EXPECT_EQ(use_of(uses, 1).of(Use::kDram), 8);
  EXPECT_EQ(use_of(uses, 2).of(Use::kDram), 8);
  EXPECT_EQ(use_of(uses, 1).of(Use::kComputing), 110 + 10 + 18);
}

TEST(Analysis, LinksAreMeasuredByPhase) {
  Trace trace = empty_trace();
  trace.tasks = {sample_task("backward", 1, 1, 0, 100), sample_task("update", 1, 0, 100, 200)};
  // 40 of 80 us of the first copy lie in the update; the second buffer goes twice.
  trace.transfers = {
      sample_transfer("m", 0, 1, 8000, 60, 140), sample_transfer("v", 0, 1, 1000, 150, 160),
      sample_transfer("v", 0, 1, 1000, 170, 180), sample_transfer("v", 1, 0, 1000, 170, 180)};
  const std::vector<LinkUse> links = link_use(trace, {0, 200});
  ASSERT_EQ(links.size(), 2U);
  const LinkUse& in = links[0];
  EXPECT_EQ(in.name, "NUMA 0 to CUDA 0");
  EXPECT_EQ(in.bytes, 10'000);
  EXPECT_EQ(in.busy, 100);
  EXPECT_EQ(in.overlapped, 60);
  EXPECT_EQ(in.hidden, 100) << "the host's worker computed, too";
  EXPECT_EQ(in.repeated_bytes, 1000);
  EXPECT_DOUBLE_EQ(in.phases.at("backward").bytes, 4000);
  EXPECT_DOUBLE_EQ(in.phases.at("update").bytes, 6000);
  EXPECT_DOUBLE_EQ(in.phases.at("update").bytes_per_s(), 6000 / 100e-6);
  EXPECT_DOUBLE_EQ(in.bytes_per_s(), 10'000 / 100e-6);
  EXPECT_EQ(links[1].bytes, 1000);
}

TEST(Analysis, MemoryIsSteppedAndReturns) {
  Trace trace = empty_trace();
  trace.memory = {{0, 1, "gradients", 100, 0, 0},
                  {10, 1, "optimizer states", 300, 0, 0},
                  {20, 1, "optimizer states", 0, 1, 0},
                  {20, 1, "gradients", 100, 1, 0}};
  const std::vector<MemoryUse> uses = memory_use(trace, {});
  ASSERT_EQ(uses.size(), 1U);
  EXPECT_EQ(uses[0].peak, 400);
  EXPECT_EQ(uses[0].lowest, 100);
  EXPECT_EQ(uses[0].curve.size(), 3U);
  ASSERT_EQ(uses[0].after_step.size(), 1U);
  EXPECT_EQ(uses[0].after_step[0], (std::pair<Index, Index>{1, 100}));
}

TEST(Analysis, MemorySwingsWithinAStep) {
  Trace trace = empty_trace();
  trace.memory = {{0, 1, "activations", 100, 0, 0},
                  {10, 1, "activations", 300, 0, 0},
                  {30, 1, "activations", 200, 0, 0},
                  {40, 1, "activations", 0, 2, 0}};
  // What was there when the step began counts; what is there after its end does not.
  const std::vector<MemoryUse> uses = memory_use(
      trace, {{.step = 1, .start = 0, .end = 20, .duration = 15}, {2, 20, 40, 20}, {3, 40, 41, 1}});
  ASSERT_EQ(uses.size(), 1U);
  ASSERT_EQ(uses[0].in_steps.size(), 3U);
  EXPECT_EQ(uses[0].in_steps[0].lowest, 100);
  EXPECT_EQ(uses[0].in_steps[0].peak, 300);
  EXPECT_EQ(uses[0].in_steps[1].lowest, 200);
  EXPECT_EQ(uses[0].in_steps[1].peak, 300);
  EXPECT_EQ(uses[0].in_steps[2].peak, 0);
}

TEST(Analysis, WhoWaitsForOtherRanksHasNoWorkForThatReason) {
  Trace trace = empty_trace();
  trace.tasks = {sample_task("forward", 1, 1, 0, 20), sample_task("update", 1, 0, 50, 60)};
  trace.communications = {{"receive gradient", 1, 8, 1, 10, 55, 0},
                          {"send gradient", 1, 8, 1, 60, 70, 0}};
  const std::vector<WorkerUse> uses = worker_use(trace, {0, 100});
  EXPECT_EQ(use_of(uses, 1).of(Use::kRanks), 30) << "while it computes or the device does, no";
  EXPECT_EQ(use_of(uses, 1).of(Use::kDevice), 10);
  EXPECT_EQ(use_of(uses, 1).of(Use::kNoWork), 40) << "what is sent holds nobody up";
  EXPECT_EQ(use_of(uses, 0).of(Use::kRanks), 40);
}

TEST(Analysis, WhoWaitsForACheckpointIsIdleForThatReason) {
  Trace trace = empty_trace();
  Task late = sample_task("update", 1, 1, 60, 70);
  trace.tasks = {sample_task("forward", 1, 1, 0, 20), late};
  // It is held, written and flushed all the time; an update needs it from 30 to 60 only.
  trace.storage = {
      test::sample_storage("hold", 100, 10, 60), test::sample_storage("write", 100, 10, 55),
      test::sample_storage("wait", 0, 30, 60), test::sample_storage("flush", 0, 55, 90)};
  const std::vector<WorkerUse> uses = worker_use(trace, {0, 100});
  EXPECT_EQ(use_of(uses, 1).of(Use::kCheckpoint), 30);
  EXPECT_EQ(use_of(uses, 1).of(Use::kNoWork), 40) << "of 20 to 30 and from 70 on";
}

TEST(Analysis, CheckpointsAreSummedByStepAndDisksByDirection) {
  Trace trace = empty_trace();
  trace.tasks = {sample_task("forward", 1, 1, 0, 250)};
  trace.storage = {
      test::sample_storage("write", 512, 0, 10),  // of a header
      test::sample_storage("hold", 3000, 100, 400),  test::sample_storage("copy", 1000, 110, 120),
      test::sample_storage("write", 1000, 200, 300), test::sample_storage("write", 2000, 250, 400),
      test::sample_storage("wait", 0, 380, 400),     test::sample_storage("flush", 0, 400, 500),
      test::sample_storage("hold", 100, 600, 650),   test::sample_storage("read", 700, 20, 30)};
  trace.storage[0].buffer = trace.storage[6].buffer = "";
  trace.storage[7].step = 2;
  trace.storage[8].disk = "/disk";
  const std::vector<CheckpointUse> checkpoints = checkpoint_use(trace);
  ASSERT_EQ(checkpoints.size(), 2U);
  EXPECT_EQ(checkpoints[0].step, 1);
  EXPECT_EQ(checkpoints[0].time, (Interval{100, 500}));
  EXPECT_EQ(checkpoints[0].bytes, 3000) << "of buffers";
  EXPECT_EQ(checkpoints[0].copied_bytes, 1000);
  EXPECT_EQ(checkpoints[0].held, 300);
  EXPECT_EQ(checkpoints[0].waited, 20);
  EXPECT_DOUBLE_EQ(checkpoints[0].bytes_per_s(), 3000 / 400e-6);
  EXPECT_EQ(checkpoints[1].bytes, 0) << "what was not recorded to its end";
  const std::vector<DiskUse> disks = disk_use(trace);
  ASSERT_EQ(disks.size(), 2U);
  EXPECT_EQ(disks[0].operation, "read");
  EXPECT_EQ(disks[0].bytes, 700);
  EXPECT_EQ(disks[1].bytes, 3512);
  EXPECT_EQ(disks[1].transfers, 3);
  EXPECT_EQ(disks[1].busy, 10 + 200);
  EXPECT_EQ(disks[1].hidden, 10 + 50);
  EXPECT_EQ(disks[1].flushing, 100);
  const std::vector<MemoryUse> held = held_use(trace);
  ASSERT_EQ(held.size(), 1U);
  EXPECT_EQ(held[0].peak, 3000);
  EXPECT_EQ(held[0].curve.back().total(), 0);
  const nlohmann::json json = to_json(trace, analyse(trace));
  EXPECT_EQ(json.at("checkpoints").at(0).at("bytes"), 3000);
  EXPECT_EQ(json.at("disks").at(1).at("flush_ms"), 0.1);
}

TEST(Analysis, PlacementsMeetTheTasksThatRan) {
  Trace trace = empty_trace();
  for (const auto& [name, worker] : {std::pair{"a", 0}, {"b", 1}, {"c", 0}}) {
    Task task = sample_task("update", 4, worker, 0, 1);
    task.label = name;
    trace.tasks.push_back(task);
  }
  trace.placements = {{"a", 4, 10, 0, 1, 1, 0},
                      {"b", 4, 20, 0, 1, 0, 0},
                      {"c", 4, 40, 0, 1, 0, 0},
                      {"d", 3, 80, 0, 0, 0, 0}};
  const std::vector<PlacementUse> steps = placement_use(trace);
  ASSERT_EQ(steps.size(), 2U);
  EXPECT_EQ(steps[1].params, 70);
  EXPECT_EQ(steps[1].planned_device, 70);
  EXPECT_EQ(steps[1].executed_device, 50);
  EXPECT_EQ(steps[1].moved, 1);
  const std::vector<SubgroupPlace> last = last_placement(trace);
  ASSERT_EQ(last.size(), 3U);
  EXPECT_EQ(last[1].executed_node, 0);
  EXPECT_TRUE(last[0].resident);
}

TEST(Analysis, LossesAreRankedAndAdvised) {
  Trace trace = empty_trace();
  Task waiting = sample_task("update", 1, 0, 900, 1000);
  waiting.taken = waiting.ready = waiting.data_start = 100;
  waiting.data_end = 900;
  trace.tasks = {sample_task("forward", 1, 1, 0, 1000), sample_task("forward", 1, 2, 0, 700),
                 waiting};
  trace.transfers = {sample_transfer("m", 0, 1, 1000, 100, 900)};
  const Analysis analysis = analyse(trace);
  ASSERT_GE(analysis.losses.size(), 2U);
  EXPECT_LE(analysis.losses.size(), 5U);
  EXPECT_THAT(analysis.losses[0].what, HasSubstr("device workers waited for data"));
  EXPECT_THAT(analysis.losses[0].remedy, HasSubstr("sched.window"));
  EXPECT_DOUBLE_EQ(analysis.losses[0].worker_us, 800);
  EXPECT_DOUBLE_EQ(analysis.losses[0].share, 800.0 / 3000);
  EXPECT_TRUE(
      std::is_sorted(analysis.losses.begin(), analysis.losses.end(),
                     [](const Loss& a, const Loss& b) { return a.worker_us > b.worker_us; }));
  EXPECT_EQ(analysis.task_us, 1000 + 700 + 100);
  const nlohmann::json json = to_json(trace, analysis);
  EXPECT_EQ(json.at("losses").size(), analysis.losses.size());
  EXPECT_DOUBLE_EQ(json.at("task_ms").get<double>(), 1.8);
}

}  // namespace
}  // namespace dos::trace::analysis_test
