// SPDX-License-Identifier: Apache-2.0
#include "platform/node_topology.hpp"

#include <gmock/gmock.h>
#include <sched.h>

#include <cstdlib>
#include <thread>

#include "base/error.hpp"
#include "platform/topology.hpp"

namespace dos::platform::node_topology_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(NodeTopology, OfADescription) {
  const Node node = NodeTopology::synthetic("numa:2 core:2 pu:2").node();
  std::vector<std::pair<Index, Index>> cores;
  for (const Core& core : node.cores) cores.emplace_back(core.number, core.numa);
  using Pair = std::pair<Index, Index>;
  EXPECT_THAT(cores, ElementsAre(Pair(0, 0), Pair(2, 0), Pair(4, 1), Pair(6, 1)));
  EXPECT_TRUE(node.gpus.empty());
  EXPECT_THAT([] { NodeTopology::synthetic("cores:"); },
              ThrowsMessage<Error>(HasSubstr("does not understand the topology 'cores:'")));
}

/// A machine with an H100 on each of its two NUMA nodes, an NVMe disk, and a GPU on no node.
TEST(NodeTopology, OfAFile) {
  const std::filesystem::path folder =
      std::filesystem::path(std::getenv("DOS_SOURCE_DIR")) / "tests" / "platform";
  const Node node = NodeTopology::from_xml(folder / "three_gpus.xml").node();
  EXPECT_EQ(node.cores.size(), 8U);
  std::vector<std::pair<std::string, Index>> gpus;
  for (const Gpu& gpu : node.gpus) gpus.emplace_back(gpu.bus, gpu.numa);
  using Pair = std::pair<std::string, Index>;
  EXPECT_THAT(gpus, ElementsAre(Pair("0000:17:00.0", 0), Pair("0000:9a:00.0", 1),
                                Pair("0000:e1:00.0", -1)));
  EXPECT_EQ(node.numa_of_gpu("0000:9a:00.0"), 1);
  EXPECT_EQ(node.numa_of_gpu("0000:18:00.0"), -1);
  EXPECT_THAT([&] { NodeTopology::from_xml(folder / "CMakeLists.txt"); },
              ThrowsMessage<Error>(HasSubstr("write it with lstopo")));
}

TEST(NodeTopology, OfThisMachineAgreesWithItsSummary) {
  const Node node = NodeTopology::of_this_machine().node();
  const Topology summary = read_topology();
  EXPECT_EQ(std::ssize(node.cores), std::max(summary.cores, Index{1}));
}

TEST(NodeTopology, BindsThisProcessAndItsThreads) {
  const auto machine = NodeTopology::of_this_machine();
  const std::vector<Index> all = machine.bound_cores();
  ASSERT_FALSE(all.empty());
  machine.bind_process({all.back()});
  EXPECT_THAT(machine.bound_cores(), ElementsAre(all.back()));
  std::vector<Index> of_thread;
  std::thread([&] {
    cpu_set_t set;
    sched_getaffinity(0, sizeof set, &set);
    for (int i = 0; i < CPU_SETSIZE; ++i)
      if (CPU_ISSET(i, &set)) of_thread.push_back(i);
  }).join();
  EXPECT_EQ(of_thread.front(), all.back());
  machine.bind_process(all);
  EXPECT_EQ(machine.bound_cores(), all);
}

TEST(NodeTopology, PrefersMemoryOfItsNodes) {
  const auto machine = NodeTopology::of_this_machine();
  const Index numa = machine.node().cores.front().numa;
  if (!machine.prefer_memory({numa})) GTEST_SKIP() << "the system lets no process choose";
  EXPECT_THROW(static_cast<void>(machine.prefer_memory({})), ContractViolation);
}

}  // namespace
}  // namespace dos::platform::node_topology_test
