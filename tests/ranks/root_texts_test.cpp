// SPDX-License-Identifier: Apache-2.0
// Started by mpiexec on 1, 2 or 4 ranks: every rank runs every test.
#include "ranks/root_texts.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "mpi_main.hpp"

namespace dos::ranks::root_texts_test {
namespace {

std::string text_of(Index rank, Index conversation) {
  return std::string(static_cast<std::size_t>(conversation * 1000), 'x') + std::to_string(rank);
}

/// What each conversation of a checkpoint says.
void converse(Exchange& exchange, Index conversation) {
  RootTexts texts(&exchange, conversation);
  EXPECT_EQ(texts.is_root(), exchange.rank() == 0);
  EXPECT_EQ(texts.from_root(text_of(exchange.rank(), conversation)), text_of(0, conversation));
  const std::vector<std::string> all = texts.to_root(text_of(exchange.rank(), conversation));
  if (texts.is_root()) {
    ASSERT_EQ(std::ssize(all), exchange.ranks());
    for (Index rank = 0; rank < exchange.ranks(); ++rank)
      EXPECT_EQ(all[static_cast<std::size_t>(rank)], text_of(rank, conversation));
  } else {
    EXPECT_TRUE(all.empty());
  }
  EXPECT_EQ(texts.from_root(""), "");
}

TEST(RootTexts, ArriveInEveryConversation) {
  Exchange exchange(*environment, {.numbers = 1});
  for (Index conversation = 0; conversation < 20; ++conversation) converse(exchange, conversation);
  exchange.close();
}

TEST(RootTexts, OfTwoConversationsAtATimeDoNotMix) {
  Exchange exchange(*environment, {.numbers = 1});
  for (Index conversation = 0; conversation < 20; conversation += 2) {
    std::thread other([&] { converse(exchange, conversation + 1); });
    converse(exchange, conversation);
    other.join();
  }
  exchange.close();
}

TEST(RootTexts, OfSomeGoOnForAnyNumberOfCalls) {
  Exchange exchange(*environment, {.numbers = 1});
  // Rank 0 and every second of the others.
  std::vector<Index> peers;
  for (Index peer = 1; peer < exchange.ranks(); peer += 2) peers.push_back(peer);
  if (exchange.rank() == 0 || exchange.rank() % 2 == 1) {
    RootTexts texts(exchange, peers);
    for (Index call = 0; call < 3 * Tags::kLeastRounds; ++call) {
      EXPECT_EQ(texts.from_root(text_of(exchange.rank(), call)), text_of(0, call));
      const std::vector<std::string> all = texts.to_root(text_of(exchange.rank(), call));
      if (!texts.is_root()) continue;
      ASSERT_EQ(all.size(), 1 + peers.size());
      for (std::size_t i = 0; i < peers.size(); ++i) EXPECT_EQ(all[1 + i], text_of(peers[i], call));
    }
  }
  exchange.close();
}

TEST(RootTexts, OfOneRankAreItsOwn) {
  RootTexts texts(nullptr, 0);
  EXPECT_TRUE(texts.is_root());
  EXPECT_EQ(texts.from_root("mine"), "mine");
  EXPECT_EQ(texts.to_root("mine"), std::vector<std::string>{"mine"});
}

}  // namespace
}  // namespace dos::ranks::root_texts_test
