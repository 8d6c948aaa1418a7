// SPDX-License-Identifier: Apache-2.0
#include "planner/exchange.hpp"

#include <gtest/gtest.h>

#include "requests.hpp"

namespace dos::planner {
namespace {

using units::Seconds;

LayerWork layer(double forward, double backward, double exchange) {
  return {Seconds(forward), Seconds(backward), Seconds(exchange)};
}

PhaseTimes run(const std::vector<LayerWork>& layers, Index zero, double update = 0) {
  return overlapped(layers, zero, Seconds(update));
}

TEST(SentByRank, IsTheTheoryOfEachLevel) {
  const ModelShape shape{.name = "m", .tensors = {{60, 0}, {40, 1}}};
  Settings settings;
  EXPECT_EQ(sent_by_rank(shape, 1, settings).total().value(), 0);
  // 100 parameters of 2 bytes, three quarters of them others'.
  EXPECT_DOUBLE_EQ(sent_by_rank(shape, 4, settings).gradients.value(), 150);
  EXPECT_DOUBLE_EQ(sent_by_rank(shape, 4, settings).weights.value(), 300);
  for (const Index zero : {1, 2}) {
    settings.zero = zero;
    EXPECT_DOUBLE_EQ(sent_by_rank(shape, 4, settings).total().value(), 300);
  }
  settings.fp32 = true;
  EXPECT_DOUBLE_EQ(sent_by_rank(shape, 4, settings).total().value(), 600);
}

TEST(Wire, IsAsFastAsItsSlowerStage) {
  Wire wire{.nodes = 1,
            .devices_of_node = 1,
            .in_node = units::BytesPerSecond(100),
            .network = units::BytesPerSecond(10),
            .latency = Seconds(5)};
  EXPECT_EQ(wire.time(units::Bytes(1000)).value(), 0);
  EXPECT_EQ(wire.slower(), "nothing");
  wire.devices_of_node = 4;
  EXPECT_DOUBLE_EQ(wire.time(units::Bytes(1000)).value(), 750.0 / 100 + 5);
  EXPECT_EQ(wire.slower(), "links of the node");
  wire.nodes = 2;
  EXPECT_DOUBLE_EQ(wire.time(units::Bytes(1000)).value(), 500.0 / 10 + 5);
  EXPECT_EQ(wire.slower(), "network");
  wire.network = units::BytesPerSecond(1000);
  EXPECT_DOUBLE_EQ(wire.time(units::Bytes(1000)).value(), 750.0 / 100 + 5);
  EXPECT_EQ(wire.slower(), "links of the node");
}

TEST(Wire, HasOneMessageADoubling) {
  const perfmodels::Machine machine = perfmodels::find_machine("h100-4x", test::machine_folder());
  const auto latency = [&](Index nodes) {
    const Layout layout{.devices = 4 * nodes, .devices_per_rank = 1, .ranks_per_node = 4};
    return wire_of(machine, layout).latency.value();
  };
  // Two in the node of four, of 10 us, and of 5 us outside: none, one, two for three nodes.
  EXPECT_DOUBLE_EQ(latency(1), 20e-6);
  EXPECT_DOUBLE_EQ(latency(2), 25e-6);
  EXPECT_DOUBLE_EQ(latency(3), 30e-6);
  EXPECT_DOUBLE_EQ(latency(256), 60e-6);
}

TEST(Wire, GoesThroughHostMemoryWithoutLinksBetweenDevices) {
  perfmodels::Machine machine = perfmodels::find_machine("h100-4x", test::machine_folder());
  machine.gather.reset();
  const Layout four{.devices = 4, .devices_per_rank = 1, .ranks_per_node = 4};
  EXPECT_DOUBLE_EQ(wire_of(machine, four).in_node.value(), 55.2e9);
  const perfmodels::Machine cpu = perfmodels::find_machine("cpu-2core", test::machine_folder());
  const Layout two{.devices = 2, .devices_per_rank = 1, .ranks_per_node = 2};
  EXPECT_DOUBLE_EQ(wire_of(cpu, two).in_node.value(), 58.103e9 / 4);
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

}  // namespace
}  // namespace dos::planner
