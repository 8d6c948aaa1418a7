// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/node_folders.hpp"

#include <gmock/gmock.h>

#include "base/error.hpp"

namespace dos::checkpoint::node_folders_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(NodeFolders, AreOneForAllRanks) {
  const NodeFolders nodes;
  EXPECT_EQ(nodes.count(), 1);
  EXPECT_FALSE(nodes.are_several());
  EXPECT_TRUE(nodes.leads(0));
  EXPECT_FALSE(nodes.leads(3));
  EXPECT_EQ(nodes.of(3), 0);
  EXPECT_THAT(nodes.other_leaders(), IsEmpty());
}

TEST(NodeFolders, AreLedByTheFirstRankOfEach) {
  const NodeFolders nodes({0, 1, 0, 2, 1});
  EXPECT_EQ(nodes.count(), 3);
  EXPECT_TRUE(nodes.are_several());
  EXPECT_EQ(nodes.of(4), 1);
  EXPECT_TRUE(nodes.leads(0) && nodes.leads(1) && nodes.leads(3));
  EXPECT_FALSE(nodes.leads(2) || nodes.leads(4));
  EXPECT_THAT(nodes.other_leaders(), ElementsAre(1, 3));
}

TEST(NodeFolders, AreCountedInTurn) {
  EXPECT_THROW(NodeFolders({0, 2, 1}), ContractViolation);
  EXPECT_THROW(NodeFolders({1, 0}), ContractViolation);
  EXPECT_THROW(NodeFolders(std::vector<Index>()), ContractViolation);
}

}  // namespace
}  // namespace dos::checkpoint::node_folders_test
