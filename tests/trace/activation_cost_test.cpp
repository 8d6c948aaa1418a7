// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "sample_trace.hpp"
#include "trace/report/activation_section.hpp"
#include "trace/report/analysis.hpp"
#include "trace/report/html.hpp"
#include "trace/report/report_json.hpp"

namespace dos::trace::activation_cost_test {
namespace {

using test::sample_task;
using test::sample_transfer;
using testing::HasSubstr;
using testing::Not;

Task block_task(const std::string& phase, const std::string& codelet, Index worker, double start,
                double end) {
  Task task = sample_task(phase, 1, worker, start, end);
  task.codelet = "dos." + codelet + ".f32.v1";
  task.label = "blocks.0.mlp";
  return task;
}

Storage moved(const std::string& operation, Index bytes, double start, double end) {
  Storage row = test::sample_storage(operation, bytes, start, end);
  row.purpose = "activations";
  return row;
}

/// Two CPU workers, of which one rests from 100 to 200.
Trace sample() {
  Trace trace;
  trace.ranks = {test::sample_manifest()};
  trace.tasks = {block_task("forward", "linear_forward", 1, 0, 100),
                 block_task("forward", "linear_forward", 2, 0, 200),
                 block_task("backward", "linear_forward", 1, 200, 260),
                 block_task("backward", "gelu_forward", 2, 200, 220),
                 block_task("backward", "linear_backward_data", 1, 260, 400)};
  return trace;
}

TEST(ActivationCosts, OfAMoveAreWhatTheMeanWorkerWaitsBesideIt) {
  Trace trace = sample();
  trace.storage = {moved("write", 1000, 50, 150), moved("read", 1000, 150, 190),
                   test::sample_storage("write", 5000, 0, 300)};
  const Analysis analysis = analyse(trace);
  ASSERT_EQ(analysis.activations.size(), 3U);
  const ActivationCost& disk = analysis.activations.front();
  EXPECT_EQ(disk.where, "disk");
  EXPECT_EQ(disk.bytes, 2000) << "of activations alone";
  EXPECT_DOUBLE_EQ(disk.time, 140);
  EXPECT_DOUBLE_EQ(disk.exposed, 90.0 / 2) << "one of two workers, from 100 to 190";
  EXPECT_EQ(analysis.activations[1].name, "products");
  EXPECT_DOUBLE_EQ(analysis.activations[1].exposed, 60.0 / 2);
  EXPECT_DOUBLE_EQ(analysis.activations[2].exposed, 20.0 / 2);
  EXPECT_THAT(dearest(analysis), HasSubstr("products to disk costs most: 45 us of a step"));
  EXPECT_THAT(to_html(trace, analysis), HasSubstr("products to disk"));
  EXPECT_DOUBLE_EQ(to_json(trace, analysis).at("activations").at(0).at("exposed_ms_a_step"), 0.045);
}

TEST(ActivationCosts, OfCopiesCountThoseOfBlocks) {
  Trace trace = sample();
  trace.transfers = {sample_transfer("lane0.activations1.qkv", 1, 0, 700, 10, 60),
                     sample_transfer("lane0.stream1", 1, 0, 700, 110, 160)};
  const Analysis analysis = analyse(trace);
  const auto host = std::ranges::find(analysis.activations, "host", &ActivationCost::where);
  ASSERT_NE(host, analysis.activations.end());
  EXPECT_EQ(host->bytes, 700);
  EXPECT_DOUBLE_EQ(host->exposed, 0);
  EXPECT_THAT(in_words(*host), HasSubstr("products to host: 700 B and 50 us a step, 0 us"));
}

Storage on_disk(const std::string& operation, Index bytes, double start, double end) {
  Storage row = moved(operation, bytes, start, end);
  row.buffer = "lane0.activations1.qkv";
  return row;
}

// One buffer of a GPU has what goes to the disk, then what goes to the host; backward has both
// again the other way round. What crosses host memory on its way to the disk is no move to the
// host.
TEST(ActivationCosts, OfADiskBehindAGpuHaveBothHops) {
  Trace trace = sample();
  for (Task& task : trace.tasks) task.worker = 0;  // it computes from 0 to 400
  const char* buffer = "lane0.activations1.qkv";
  trace.transfers = {
      sample_transfer(buffer, 1, 0, 700, 10, 20),   sample_transfer(buffer, 1, 0, 700, 100, 110),
      sample_transfer(buffer, 0, 1, 700, 200, 210), sample_transfer(buffer, 0, 1, 700, 330, 340),
      sample_transfer(buffer, 1, 2, 700, 300, 310),  // no move of a plan
  };
  trace.ranks.front().machine.workers.push_back({3, "CUDA 1", "cuda", 2});
  trace.ranks.front().machine.nodes.push_back({2, "CUDA 1", std::nullopt});
  trace.storage = {on_disk("write", 700, 20, 50), on_disk("read", 700, 270, 320)};
  const Analysis analysis = analyse(trace);
  const auto cost = [&](const char* where) {
    const auto found = std::ranges::find(analysis.activations, where, &ActivationCost::where);
    return found == analysis.activations.end() ? ActivationCost() : *found;
  };
  EXPECT_EQ(cost("disk").bytes, 1400) << "once, where they go";
  EXPECT_DOUBLE_EQ(cost("disk").time, 10 + 30 + 50 + 10);
  EXPECT_EQ(cost("host").bytes, 1400);
  EXPECT_DOUBLE_EQ(cost("host").time, 20);
  EXPECT_DOUBLE_EQ(cost("host").exposed, 0);
}

TEST(ActivationCosts, AreNoneWhereAllIsKept) {
  Trace trace = sample();
  trace.tasks.erase(trace.tasks.begin() + 2, trace.tasks.begin() + 4);
  const Analysis analysis = analyse(trace);
  EXPECT_TRUE(analysis.activations.empty());
  EXPECT_EQ(dearest(analysis), "");
  EXPECT_THAT(to_html(trace, analysis), Not(HasSubstr("Activations that were not kept")));
}

// Ranks share what a step of one costs.
TEST(ActivationCosts, AreOfOneRankAndOneStep) {
  Trace trace = sample();
  trace.ranks.push_back(test::sample_manifest(1, 2));
  std::vector<Task> others = trace.tasks;
  for (Task& task : others) task.rank = 1;
  trace.tasks.insert(trace.tasks.end(), others.begin(), others.end());
  trace.storage = {moved("write", 1000, 100, 150)};
  const Analysis analysis = analyse(trace);
  const auto disk = std::ranges::find(analysis.activations, "disk", &ActivationCost::where);
  ASSERT_NE(disk, analysis.activations.end());
  EXPECT_EQ(disk->bytes, 500);
  EXPECT_DOUBLE_EQ(disk->time, 25);
  EXPECT_DOUBLE_EQ(analysis.activations.front().exposed, 60.0 / 2);
}

}  // namespace
}  // namespace dos::trace::activation_cost_test
