// SPDX-License-Identifier: Apache-2.0
// Started by mpiexec on three ranks of one machine.
#include "platform/neighbours.hpp"

#include <gmock/gmock.h>

#include "platform/mpi.hpp"

namespace dos::platform::neighbours_test {
namespace {

using testing::ElementsAre;

TEST(Neighbours, AreAllRanksOfTheMachine) {
  const RankPosition at = rank_position();
  EXPECT_EQ(at.size, 3);
  EXPECT_EQ(at.local_size, 3);
  EXPECT_EQ(at.local_rank, at.rank);
}

TEST(Neighbours, ExchangeTextsOfAnyLength) {
  const std::vector<std::string> texts{"", "one", std::string(100'000, 'x')};
  const auto mine = texts[static_cast<std::size_t>(rank_position().rank)];
  EXPECT_THAT(exchange_texts(mine, Among::kAll), ElementsAre(texts[0], texts[1], texts[2]));
  EXPECT_THAT(exchange_texts(mine, Among::kNode), ElementsAre(texts[0], texts[1], texts[2]));
  EXPECT_THAT(exchange_texts("", Among::kAll), ElementsAre("", "", ""));
}

}  // namespace
}  // namespace dos::platform::neighbours_test

int main(int argc, char** argv) {
  const dos::platform::MpiEnvironment mpi(argc, argv);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
