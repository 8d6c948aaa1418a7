// SPDX-License-Identifier: Apache-2.0
#include "sched/contention.hpp"

#include <gtest/gtest.h>

#include "base/random.hpp"

namespace dos::sched::contention_test {
namespace {

double demand(const std::vector<Flow>& flows) {
  double sum = 0;
  for (const Flow& flow : flows) sum += flow.rate * flow.bytes;
  return sum;
}

TEST(ShareDram, LeavesAloneWhatFits) {
  std::vector<Flow> none;
  share_dram(none, 1);
  std::vector<Flow> flows{{4, 2, 4}, {1, 0, 1}};
  share_dram(flows, 8);
  EXPECT_DOUBLE_EQ(flows[0].rate, 4);
  EXPECT_DOUBLE_EQ(flows[1].rate, 1);
}

TEST(ShareDram, SlowsAllByTheSameFactor) {
  std::vector<Flow> flows{{4, 2, 4}, {8, 1, 8}};
  share_dram(flows, 8);
  EXPECT_DOUBLE_EQ(flows[0].rate, 2);
  EXPECT_DOUBLE_EQ(flows[1].rate, 4);
}

TEST(ShareDram, GivesToOthersWhatALimitLeaves) {
  std::vector<Flow> flows{{4, 1, 4}, {4, 1, 1}};
  share_dram(flows, 4);
  EXPECT_DOUBLE_EQ(flows[0].rate, 3);
  EXPECT_DOUBLE_EQ(flows[1].rate, 1);
}

TEST(ShareDram, WhatYieldsTakesWhatTheOthersLeave) {
  std::vector<Flow> flows{{4, 1, 4}, {.rate = 10, .bytes = 2, .limit = 10, .yields = true}};
  share_dram(flows, 10);
  EXPECT_DOUBLE_EQ(flows[0].rate, 4);
  EXPECT_DOUBLE_EQ(flows[1].rate, 3);
  flows[1].rate = 1;
  share_dram(flows, 10);
  EXPECT_DOUBLE_EQ(flows[1].rate, 1) << "no more than it asks for";
}

TEST(ShareDram, WhatYieldsKeepsItsLeast) {
  std::vector<Flow> flows{{8, 1, 8},
                          {.rate = 10, .bytes = 2, .limit = 10, .yields = true, .least = 2}};
  share_dram(flows, 8);
  EXPECT_DOUBLE_EQ(flows[1].rate, 1);
  EXPECT_DOUBLE_EQ(flows[0].rate, 6);
}

TEST(ShareDram, WhatLeadsIsServedFirst) {
  std::vector<Flow> flows{{8, 1, 8}, {.rate = 4, .bytes = 1, .limit = 3, .leads = true}};
  share_dram(flows, 8);
  EXPECT_DOUBLE_EQ(flows[1].rate, 3);
  EXPECT_DOUBLE_EQ(flows[0].rate, 5);
}

TEST(ShareDram, WhatLeadsLeavesHalfToThoseThatWantIt) {
  std::vector<Flow> flows{{8, 1, 8}, {.rate = 12, .bytes = 1, .limit = 12, .leads = true}};
  share_dram(flows, 8);
  EXPECT_DOUBLE_EQ(flows[1].rate, 4);
  EXPECT_DOUBLE_EQ(flows[0].rate, 4);
  flows = {{1, 1, 1}, {.rate = 12, .bytes = 1, .limit = 12, .leads = true}};
  share_dram(flows, 8);
  EXPECT_DOUBLE_EQ(flows[1].rate, 7);
  EXPECT_DOUBLE_EQ(flows[0].rate, 1);
}

TEST(ShareDram, UsesAllOfTheBandwidthAndNoMore) {
  const Philox random(2);
  for (std::uint64_t stream = 0; stream < 2000; ++stream) {
    std::vector<Flow> flows;
    double unlimited = 0;
    for (std::uint64_t i = 0; i < 5; ++i) {
      const double rate = random.uniform(3 * i, stream) + 0.01;
      const double limit = rate * (random.uniform(3 * i + 1, stream) < 0.5 ? 1 : 0.4);
      flows.push_back({rate, random.uniform(3 * i + 2, stream), limit});
      unlimited += limit * flows.back().bytes;
    }
    const double bandwidth = 2 * random.uniform(99, stream) + 0.01;
    share_dram(flows, bandwidth);
    // Ten sums and products: 20 eps.
    EXPECT_NEAR(demand(flows), std::min(unlimited, bandwidth), 1e-14) << stream;
    for (const Flow& flow : flows) EXPECT_LE(flow.rate, flow.limit);
  }
}

}  // namespace
}  // namespace dos::sched::contention_test
