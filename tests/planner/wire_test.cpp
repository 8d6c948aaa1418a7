// SPDX-License-Identifier: Apache-2.0
#include "planner/wire.hpp"

#include <gmock/gmock.h>

#include "base/error.hpp"
#include "requests.hpp"

namespace dos::planner::wire_test {
namespace {

using testing::DoubleEq;
using testing::HasSubstr;
using testing::Pointwise;
using testing::ThrowsMessage;
using units::Seconds;

LayerWork layer(double forward, double backward, double exchange) {
  return {Seconds(forward), Seconds(backward), Seconds(exchange), Seconds(exchange)};
}

PhaseTimes run(const std::vector<LayerWork>& layers, Index zero, double update = 0) {
  return overlapped(layers, zero, Seconds(update));
}

TEST(SentByRank, IsTheTheoryOfEachLevel) {
  const shape::Model model = test::model_with({test::vector("a", 60, 0), test::vector("b", 40, 1)});
  PlanSettings settings;
  EXPECT_EQ(sent_by_rank(model, 1, settings).total().value(), 0);
  // 100 parameters of 2 bytes, three quarters of them others'.
  EXPECT_DOUBLE_EQ(sent_by_rank(model, 4, settings).gradients.value(), 150);
  EXPECT_DOUBLE_EQ(sent_by_rank(model, 4, settings).weights.value(), 300);
  for (const Index zero : {1, 2}) {
    settings.zero = zero;
    EXPECT_DOUBLE_EQ(sent_by_rank(model, 4, settings).total().value(), 300);
  }
  settings.fp32 = true;
  EXPECT_DOUBLE_EQ(sent_by_rank(model, 4, settings).total().value(), 600);
}

TEST(Wire, IsAsFastAsItsSlowestStage) {
  Wire wire;
  EXPECT_EQ(wire.time(units::Bytes(1000)).value(), 0);
  EXPECT_EQ(wire.slowest(), "nothing");
  wire = {.stages = {{"a", units::SecondsPerByte(2)}, {"b", units::SecondsPerByte(3)}},
          .latency = Seconds(5)};
  EXPECT_DOUBLE_EQ(wire.time(units::Bytes(1000)).value(), 3000 + 5);
  EXPECT_EQ(wire.slowest(), "b");
}

/// A node: four GPUs with links of 10, a gather of 100, DRAM 80, network 5 bytes a second.
perfmodels::Machine node_of_four() {
  perfmodels::Machine machine;
  machine.name = "m";
  machine.gpus.value = 4;
  machine.h2d.value = units::BytesPerSecond(10);
  machine.d2h.value = units::BytesPerSecond(12);
  machine.both.value = units::BytesPerSecond(22);
  machine.gather = {units::BytesPerSecond(100), ""};
  machine.dram_bandwidth.value = units::BytesPerSecond(80);
  machine.transfer_latency.value = Seconds(1);
  machine.network = {.bandwidth = {units::BytesPerSecond(5), ""}, .latency = {Seconds(10), ""}};
  return machine;
}

Deployment nodes_of_four(Index nodes) {
  return {.devices = 4 * nodes, .devices_per_rank = 1, .ranks_per_node = 4};
}

std::vector<double> costs(const Wire& wire) {
  std::vector<double> values;
  for (const Stage& stage : wire.stages) values.push_back(stage.cost.value());
  return values;
}

TEST(Wire, DirectMessagesPassHostMemoryAndTheNetworkForEachRank) {
  const perfmodels::Machine machine = node_of_four();
  const PlanSettings settings;
  EXPECT_TRUE(wire_of(machine, {.devices = 1}, settings).stages.empty());
  // Links: 3/4 at 10. DRAM: four ranks, 4 bytes for each of 3/4.
  const Wire one = wire_of(machine, nodes_of_four(1), settings);
  EXPECT_THAT(costs(one), Pointwise(DoubleEq(), {0.075, 4 * 4 * 0.75 / 80}));
  EXPECT_EQ(one.slowest(), "DRAM");
  EXPECT_DOUBLE_EQ(one.latency.value(), 2);
  // Of eight ranks, a node's four send to the four elsewhere.
  const Wire two = wire_of(machine, nodes_of_four(2), settings);
  EXPECT_THAT(costs(two),
              Pointwise(DoubleEq(), {7.0 / 8 / 10, 4 * 4 * (7.0 / 8) / 80, 4 * (4.0 / 8) / 5}));
  EXPECT_EQ(two.slowest(), "network");
  EXPECT_DOUBLE_EQ(two.latency.value(), 12);
}

TEST(Wire, CollectivesPassTheNetworkOnceANode) {
  const perfmodels::Machine machine = node_of_four();
  PlanSettings settings;
  settings.exchange = ExchangeWay::kCollective;
  EXPECT_THAT(costs(wire_of(machine, nodes_of_four(1), settings)), Pointwise(DoubleEq(), {0.0075}));
  const Wire two = wire_of(machine, nodes_of_four(2), settings);
  EXPECT_THAT(costs(two), Pointwise(DoubleEq(), {0.0075, 0.5 / 5}));
  // Two messages in the node of four; outside one a doubling: 1 for two nodes, 2 for three.
  EXPECT_DOUBLE_EQ(two.latency.value(), 2 + 10);
  EXPECT_DOUBLE_EQ(wire_of(machine, nodes_of_four(3), settings).latency.value(), 2 + 20);
  EXPECT_DOUBLE_EQ(wire_of(machine, nodes_of_four(256), settings).latency.value(), 2 + 80);
}

TEST(Wire, BetweenCpusIsReadAndWritten) {
  perfmodels::Machine machine = node_of_four();
  machine.gpus.value = 0;
  machine.gather.reset();
  const Deployment two{.devices = 2, .devices_per_rank = 1, .ranks_per_node = 2};
  PlanSettings settings;
  EXPECT_THAT(costs(wire_of(machine, two, settings)), Pointwise(DoubleEq(), {2 * 2 * 0.5 / 80}));
  settings.exchange = ExchangeWay::kCollective;
  EXPECT_THAT(costs(wire_of(machine, two, settings)), Pointwise(DoubleEq(), {2 * 2 * 0.5 / 80}));
}

TEST(Wire, BetweenNodesNeedsANetwork) {
  perfmodels::Machine machine = node_of_four();
  machine.network.reset();
  EXPECT_NO_THROW(wire_of(machine, nodes_of_four(1), {}));
  EXPECT_THAT([&] { wire_of(machine, nodes_of_four(2), {}); },
              ThrowsMessage<Error>(HasSubstr("2 nodes of m: its machine file has no network")));
}

TEST(Overlapped, OneRankWaitsForNothing) {
  for (const Index zero : {1, 2, 3}) {
    EXPECT_EQ(run({}, zero).forward.value(), 0);
    const PhaseTimes times = run({layer(1, 3, 0), layer(2, 6, 0)}, zero, 7);
    EXPECT_DOUBLE_EQ(times.forward.value(), 3);
    EXPECT_DOUBLE_EQ(times.backward.value(), 9);
    EXPECT_DOUBLE_EQ(times.exposed.value(), 0);
  }
}

TEST(Overlapped, GathersHideBehindTheLayerBefore) {
  // Forward: 1 gathered, then each gather of 1 beside 2. Backward: 1, 3 * 6, the last reduction.
  const std::vector<LayerWork> layers(3, layer(2, 6, 1));
  EXPECT_DOUBLE_EQ(run(layers, 3).forward.value(), 1 + 6);
  EXPECT_DOUBLE_EQ(run(layers, 3).backward.value(), 1 + 18 + 1);
  EXPECT_DOUBLE_EQ(run(layers, 3).exposed.value(), 3);
}

TEST(Overlapped, ASlowWireIsBusyAllTheTime) {
  // Forward: gathers of 4 one behind the other, then 1. Backward: the last layer's reduction waits
  // for two gathers at most, since only two layers' weights have room: 3 gathers, 3 reductions.
  const std::vector<LayerWork> layers(3, layer(1, 1, 4));
  EXPECT_DOUBLE_EQ(run(layers, 3).forward.value(), 3 * 4 + 1);
  EXPECT_DOUBLE_EQ(run(layers, 3).backward.value(), 6 * 4);
  // ZeRO-2 gathers nothing: the first layer's products, then three reductions.
  EXPECT_DOUBLE_EQ(run(layers, 2).backward.value(), 1 + 3 * 4);
}

TEST(Overlapped, PrefetchIsOneLayerAhead) {
  // The gather of the third layer (4) starts when the first one has run (1 + 5), not at 1 + 1.
  const std::vector<LayerWork> layers{layer(5, 0, 1), layer(1, 0, 1), layer(1, 0, 4)};
  EXPECT_DOUBLE_EQ(run(layers, 3).forward.value(), 1 + 5 + 4 + 1);
}

TEST(Overlapped, BroadcastsBeginWhileOthersAreUpdated) {
  const std::vector<LayerWork> layers(4, layer(1, 1, 2));
  // A layer is updated every 10 s: only the last one's broadcast is behind the update.
  EXPECT_DOUBLE_EQ(run(layers, 1, 40).forward.value(), 4);
  // Its 2 s are hidden by three layers' products; with an update of no time all four are not.
  EXPECT_DOUBLE_EQ(run(layers, 1, 0).forward.value(), 4 * 2 + 1);
  // ZeRO-3 does not send before forward.
  EXPECT_DOUBLE_EQ(run(layers, 3, 40).forward.value(), 4 * 2 + 1);
}

// Five layers, of which the first two are moved, as the buffers of three are theirs. Stores end at
// 4 and 7, where the fourth and fifth layer begin; loads begin when the fifth and fourth are
// through backward, at 2 and 4, and take their turn.
TEST(Overlapped, MovesWaitForBuffersAndBuffersForMoves) {
  std::vector<LayerWork> layers(5, layer(1, 2, 0));
  const PhaseTimes without = run(layers, 1);
  EXPECT_EQ(without.moving, Seconds(0));
  for (const auto& [store, load] :
       {std::pair{Move{.link = Seconds(3)}, Move{.link = Seconds(5)}},
        {Move{.link = Seconds(1), .disk = Seconds(3)}, {.link = Seconds(5), .disk = Seconds(2)}},
        {Move{.disk = Seconds(3)}, {.disk = Seconds(5)}}}) {
    layers[0].store = layers[1].store = store;
    layers[0].load = layers[1].load = load;
    for (const Index zero : {1, 3}) {
      const PhaseTimes times = run(layers, zero);
      EXPECT_DOUBLE_EQ(times.forward.value(), 8);
      EXPECT_DOUBLE_EQ(times.backward.value(), 14);
      EXPECT_DOUBLE_EQ(times.moving.value(), 7);
      EXPECT_DOUBLE_EQ(times.exposed.value(), 0);
    }
  }
}

}  // namespace
}  // namespace dos::planner::wire_test
