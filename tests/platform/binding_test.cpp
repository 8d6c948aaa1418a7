// SPDX-License-Identifier: Apache-2.0
#include "platform/binding.hpp"

#include <gmock/gmock.h>

#include <set>

#include "base/error.hpp"
#include "platform/node_topology.hpp"

namespace dos::platform::binding_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// Two NUMA nodes of four cores, with two hardware threads each, and a GPU on each node.
Node two_sockets() {
  Node node = NodeTopology::synthetic("numa:2 core:4 pu:2").node();
  node.gpus = {{"0000:17:00.0", 0}, {"0000:9a:00.0", 1}};
  return node;
}

std::vector<Index> cores_of(const Node& node) {
  std::vector<Index> cores;
  for (const Core& core : node.cores) cores.push_back(core.number);
  return cores;
}

std::vector<std::string> gpus_of(const Node& node) {
  std::vector<std::string> gpus;
  for (const Gpu& gpu : node.gpus) gpus.push_back(gpu.bus);
  return gpus;
}

/// The bindings of `ranks` ranks to which the launcher has given everything.
std::vector<Binding> divided(const Node& node, Index ranks) {
  const std::vector<RankResources> all(static_cast<std::size_t>(ranks),
                                       {cores_of(node), gpus_of(node)});
  std::vector<Binding> bindings;
  for (Index me = 0; me < ranks; ++me) bindings.push_back(bind_rank(node, all, me, ranks > 1));
  return bindings;
}

TEST(BindRank, AloneTakesEverything) {
  const Node node = two_sockets();
  const Binding binding = divided(node, 1)[0];
  EXPECT_EQ(binding.origin, Origin::kWhole);
  // Numbers are those of the cores' first hardware threads.
  EXPECT_THAT(binding.cores, ElementsAre(0, 2, 4, 6, 8, 10, 12, 14));
  EXPECT_THAT(binding.gpus, ElementsAre("0000:17:00.0", "0000:9a:00.0"));
  EXPECT_EQ(binding.gpu_sharers, 1);
  EXPECT_THAT(binding.memory, ElementsAre(0, 1));
  EXPECT_FALSE(binding.has_progress_core);
  EXPECT_EQ(binding.workers(), 6);
  EXPECT_THAT(binding.warnings, IsEmpty());
}

TEST(BindRank, DividesByNumaNodeWithTheNearestGpus) {
  Node node = two_sockets();
  // GPUs in the order of the bus need not be in the order of the nodes.
  std::swap(node.gpus[0].numa, node.gpus[1].numa);
  const auto bindings = divided(node, 2);
  EXPECT_THAT(bindings[0].cores, ElementsAre(0, 2, 4, 6));
  EXPECT_THAT(bindings[0].gpus, ElementsAre("0000:9a:00.0"));
  EXPECT_THAT(bindings[0].memory, ElementsAre(0));
  EXPECT_THAT(bindings[1].cores, ElementsAre(8, 10, 12, 14));
  EXPECT_THAT(bindings[1].numa, ElementsAre(1));
  EXPECT_THAT(bindings[1].gpus, ElementsAre("0000:17:00.0"));
  EXPECT_EQ(bindings[1].origin, Origin::kDivided);
  // Three cores beside the GPU's: none to spare for communication.
  EXPECT_FALSE(bindings[1].has_progress_core);
  EXPECT_EQ(bindings[1].workers(), 3);
}

TEST(BindRank, KeepsACoreForCommunicationWhereThereAreEnough) {
  const Node node = NodeTopology::synthetic("numa:2 core:5 pu:1").node();
  for (const Binding& binding : divided(node, 2)) {
    EXPECT_TRUE(binding.has_progress_core);
    EXPECT_EQ(binding.workers(), 4);
  }
  // Other nodes have ranks too.
  const std::vector<RankResources> one{{cores_of(node), {}}};
  EXPECT_TRUE(bind_rank(node, one, 0, true).has_progress_core);
  EXPECT_FALSE(bind_rank(node, one, 0, false).has_progress_core);
}

/// Any number of ranks, also those that divide nothing: each core has one rank, parts differ by
/// one.
TEST(BindRank, EveryCoreHasOneRank) {
  const Node node = two_sockets();
  for (Index ranks = 1; ranks <= 8; ++ranks) {
    std::multiset<Index> taken;
    std::set<std::size_t> sizes;
    for (const Binding& binding : divided(node, ranks)) {
      taken.insert(binding.cores.begin(), binding.cores.end());
      sizes.insert(binding.cores.size());
    }
    EXPECT_EQ(taken, std::multiset<Index>({0, 2, 4, 6, 8, 10, 12, 14})) << ranks;
    EXPECT_LE(*sizes.rbegin() - *sizes.begin(), 1U) << ranks;
  }
}

TEST(BindRank, MoreRanksThanCoresOrGpusAreReported) {
  Node node = NodeTopology::synthetic("core:2 pu:1").node();
  node.gpus = {{"0000:17:00.0", 0}};
  const auto bindings = divided(node, 3);
  EXPECT_THAT(bindings[0].cores, ElementsAre(0));
  EXPECT_THAT(bindings[2].cores, ElementsAre(0));
  EXPECT_THAT(bindings[2].gpus, ElementsAre("0000:17:00.0"));
  EXPECT_EQ(bindings[2].gpu_sharers, 3);
  EXPECT_THAT(describe(bindings[0], node), HasSubstr(", shared by 3 ranks"));
  EXPECT_EQ(bindings[2].workers(), 1);
  EXPECT_THAT(bindings[2].warnings,
              ElementsAre(HasSubstr("3 ranks share 2 cores"), HasSubstr("3 ranks share 1 GPU:"),
                          HasSubstr("1 cores for 1 GPUs")));
}

TEST(BindRank, LeftoverGpusAreReported) {
  Node node = NodeTopology::synthetic("core:8 pu:1").node();
  node.gpus = {{"a", 0}, {"b", 0}, {"c", -1}};
  const auto bindings = divided(node, 2);
  EXPECT_THAT(bindings[0].gpus, ElementsAre("a"));
  EXPECT_THAT(bindings[1].gpus, ElementsAre("b"));
  EXPECT_THAT(bindings[0].warnings, ElementsAre(HasSubstr("1 of 3 GPUs are not used")));
}

TEST(BindRank, TakesWhatTheLauncherBound) {
  const Node node = two_sockets();
  // Slurm gave cores, and all GPUs to everyone: the nearest ones are divided.
  const std::vector<RankResources> ranks{{{8, 10}, gpus_of(node)}, {{0, 2, 4}, gpus_of(node)}};
  const Binding first = bind_rank(node, ranks, 0, true);
  EXPECT_EQ(first.origin, Origin::kLauncher);
  EXPECT_THAT(first.cores, ElementsAre(8, 10));
  EXPECT_THAT(first.gpus, ElementsAre("0000:9a:00.0"));
  EXPECT_THAT(first.memory, ElementsAre(1));
  EXPECT_THAT(first.warnings, IsEmpty());
  EXPECT_THAT(bind_rank(node, ranks, 1, true).gpus, ElementsAre("0000:17:00.0"));
  // One rank with a part of the node.
  EXPECT_EQ(bind_rank(node, std::span(ranks).first(1), 0, false).origin, Origin::kLauncher);
}

TEST(BindRank, KeepsTheGpusThatTheLauncherGave) {
  const Node node = two_sockets();
  const std::vector<RankResources> ranks{{{0, 2}, {"0000:9a:00.0"}}, {{8, 10}, {"0000:17:00.0"}}};
  EXPECT_THAT(bind_rank(node, ranks, 0, true).gpus, ElementsAre("0000:9a:00.0"));
  EXPECT_THAT(bind_rank(node, ranks, 1, true).memory, ElementsAre(0));
}

// Two GPUs for three ranks; lists of the launcher's that overlap; none.
TEST(BindRank, CountsTheRanksOfItsGpus) {
  const Node node = two_sockets();
  const auto bindings = divided(node, 3);
  EXPECT_EQ(bindings[0].gpu_sharers, 2);
  EXPECT_EQ(bindings[1].gpu_sharers, 2);
  EXPECT_EQ(bindings[1].gpus, bindings[0].gpus) << "the nearest, with the middle rank's first core";
  EXPECT_EQ(bindings[2].gpu_sharers, 1);
  const std::vector<RankResources> ranks{
      {{0}, {"a", "b"}}, {{2}, {"b", "c"}}, {{4}, {"d"}}, {{6}, {}}};
  for (const Index me : {0, 1}) EXPECT_EQ(bind_rank(node, ranks, me, true).gpu_sharers, 2) << me;
  for (const Index me : {2, 3}) EXPECT_EQ(bind_rank(node, ranks, me, true).gpu_sharers, 1) << me;
}

TEST(MemoryShare, IsAnEqualPartOfNineTenths) {
  EXPECT_EQ(memory_share(0, 1, 0), 0);
  EXPECT_EQ(memory_share(1000, 1, 0), 900);
  EXPECT_EQ(memory_share(1000, 3, 0), 300);
  EXPECT_EQ(memory_share(1000, 3, 299), 299) << "less was asked for";
  EXPECT_EQ(memory_share(1000, 3, 301), 300);
  EXPECT_THROW(memory_share(1000, 0, 0), ContractViolation);
}

TEST(SpareCores, AreThoseWithoutAWorker) {
  Binding binding;
  binding.cores = {4, 6, 8};
  EXPECT_THAT(spare_cores(binding, {}), ElementsAre(4, 6, 8));
  EXPECT_THAT(spare_cores(binding, {0, 4, 6}), ElementsAre(8));
  EXPECT_THAT(spare_cores(binding, {4, 6, 8}), IsEmpty());
}

TEST(BindRank, OverlappingBindingsAreReported) {
  const Node node = two_sockets();
  const std::vector<RankResources> ranks{{{0, 2, 4}, {}}, {{4, 6}, {}}};
  const Binding binding = bind_rank(node, ranks, 0, true);
  EXPECT_THAT(binding.cores, ElementsAre(0, 2, 4));
  EXPECT_THAT(binding.warnings, ElementsAre(HasSubstr("1 of this rank's 3 cores are bound to other "
                                                      "ranks too: see srun --cpu-bind")));
}

TEST(BindRank, NeedsARankWithACore) {
  const Node node = two_sockets();
  const std::vector<RankResources> none{{{}, {}}};
  EXPECT_THROW(bind_rank(node, none, 0, false), ContractViolation);
  const std::vector<RankResources> one{{{0}, {}}};
  EXPECT_THROW(bind_rank(node, one, 1, false), ContractViolation);
}

TEST(Ranges, JoinNeighbours) {
  EXPECT_EQ(ranges({}), "none");
  EXPECT_EQ(ranges({3}), "3");
  EXPECT_EQ(ranges({0, 1, 2, 4, 8, 9}), "0-2,4,8-9");
}

TEST(Describe, IsOneLine) {
  const Node node = two_sockets();
  EXPECT_EQ(
      describe(divided(node, 2)[1], node),
      "cores 8,10,12,14 (3 for workers, 1 for GPUs), NUMA node 1, GPU 0000:9a:00.0 (NUMA node "
      "1), divided among the node's ranks");
  EXPECT_THAT(describe(divided(node, 1)[0], node), HasSubstr("NUMA nodes 0-1"));
}

}  // namespace
}  // namespace dos::platform::binding_test
