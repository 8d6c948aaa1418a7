// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <vector>

#include "ranks/expected_traffic.hpp"

namespace dos::ranks::traffic_test {
namespace {

/// An embedding of 100, `layers` layers of two subgroups (40 and 8), a last norm of 4.
shape::Layout layout_of(Index layers) {
  shape::Layout layout;
  const auto add = [&](Index count, Index depth) {
    layout.subgroups.push_back({.name = "s", .count = count, .depth = depth, .decay = false});
  };
  add(100, 0);
  for (Index depth = 1; depth <= layers; ++depth) {
    add(40, depth);
    add(8, depth);
  }
  add(4, layers + 1);
  return layout;
}

Traffic total(const shape::Layout& layout, test::TrafficCase c) {
  std::vector<Index> owners;
  for (std::size_t i = 0; i < layout.subgroups.size(); ++i)
    owners.push_back(static_cast<Index>(i) % c.ranks);
  Traffic sum;
  for (c.rank = 0; c.rank < c.ranks; ++c.rank) {
    const Traffic one = test::expected_traffic(layout, owners, c);
    for (std::size_t kind = 0; kind < sum.bytes.size(); ++kind) sum.bytes[kind] += one.bytes[kind];
  }
  return sum;
}

TEST(Traffic, OneRankSendsNothing) {
  const Traffic traffic = total(layout_of(4), {.ranks = 1});
  EXPECT_EQ(traffic[Kind::kGradient], 0);
  EXPECT_EQ(traffic[Kind::kParameter], 0);
}

// Of reduce-scatter and all-gather the same: P (N - 1) / N a rank on average.
TEST(Traffic, EveryParameterCrossesOnceEachWay) {
  const shape::Layout layout = layout_of(4);
  const Index parameters = layout.parameter_count();
  for (const Index ranks : {2, 3, 4})
    for (const Index zero : {1, 2}) {
      const Traffic traffic =
          total(layout, {.zero = zero, .ranks = ranks, .gradient_bytes = 4, .parameter_bytes = 2});
      EXPECT_EQ(traffic[Kind::kGradient], 4 * parameters * (ranks - 1));
      EXPECT_EQ(traffic[Kind::kParameter], 2 * parameters * (ranks - 1));
    }
}

TEST(Traffic, GradientsThatAreNotKeptCrossOnceAMicroBatch) {
  const shape::Layout layout = layout_of(4);
  const Index once = total(layout, {.zero = 1, .ranks = 2, .accumulate = 3})[Kind::kGradient];
  for (const Index zero : {2, 3})
    EXPECT_EQ(total(layout, {.zero = zero, .ranks = 2, .accumulate = 3})[Kind::kGradient],
              3 * once);
}

// Four layers in two sets of buffers: forward gathers all four, backward those two that are no
// longer there, the next forward pass the other two. Embedding and last norm: once, as ever.
TEST(Traffic, LayersAreGatheredForEachPass) {
  const shape::Layout layout = layout_of(4);
  const Index others = 104 * 4;
  const Index layer = 48 * 4;
  const auto parameters = [&](Index accumulate) {
    return total(layout, {.zero = 3, .ranks = 2, .accumulate = accumulate})[Kind::kParameter];
  };
  EXPECT_EQ(parameters(1), others + (4 + 2) * layer);
  EXPECT_EQ(parameters(2), others + (4 + 2 + 2 + 2) * layer);
}

// What is frozen is sent where it is gathered only, and not again while it lies in the buffers.
TEST(Traffic, FrozenParametersAreGatheredOnly) {
  shape::Layout layout = layout_of(4);
  const auto freeze = [&](Index depth) {
    for (shape::Subgroup& subgroup : layout.subgroups)
      if (subgroup.depth == depth) subgroup.trained = false;
  };
  freeze(0);
  freeze(1);
  const Index trained = 3 * 48 + 4;
  for (const Index zero : {1, 2}) {
    const Traffic traffic = total(layout, {.zero = zero, .ranks = 2});
    EXPECT_EQ(traffic[Kind::kGradient], 4 * trained);
    EXPECT_EQ(traffic[Kind::kParameter], 4 * trained);
  }
  // Layers 1 and 3 share buffers, and 2 and 4. Forward gathers all four, backward 2 only: the
  // last norm is sent once.
  const auto parameters = [&](Index accumulate) {
    return total(layout, {.zero = 3, .ranks = 2, .accumulate = accumulate})[Kind::kParameter];
  };
  EXPECT_EQ(total(layout, {.zero = 3, .ranks = 2})[Kind::kGradient], 4 * trained);
  EXPECT_EQ(parameters(1), 4 * (4 + 48 * (4 + 1)));
  // The second forward pass finds layer 2 alone where it left it.
  EXPECT_EQ(parameters(2), 4 * (4 + 48 * (4 + 1 + 3 + 1)));
  // All of them: layers 1 to 3 lie in no buffer when they are needed, as none is updated there.
  for (const Index depth : {2, 3, 4}) freeze(depth);
  EXPECT_EQ(parameters(1), 4 * (4 + 48 * 4));
}

TEST(Traffic, TwoLayersStay) {
  const shape::Layout layout = layout_of(2);
  EXPECT_EQ(total(layout, {.zero = 3, .ranks = 2, .accumulate = 5})[Kind::kParameter],
            4 * layout.parameter_count());
}

}  // namespace
}  // namespace dos::ranks::traffic_test
