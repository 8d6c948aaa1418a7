// SPDX-License-Identifier: Apache-2.0
#include "offload/slot_queue.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace dos::offload::slot_queue_test {
namespace {

struct Visit {
  Index round;
  Index turn;
};

/// Who gets a slot now.
std::vector<const Visit*> granted(SlotQueue<Visit>& queue) {
  std::vector<const Visit*> visits;
  while (const auto grant = queue.next()) visits.push_back(grant->visit);
  return visits;
}

void ask(SlotQueue<Visit>& queue, Visit& visit) {
  queue.ask(visit, visit.round, visit.turn);
}

TEST(SlotQueue, GivesASlotToEachThatAsksInTheOrderOfUpdates) {
  SlotQueue<Visit> queue(2);
  std::array<Visit, 3> visits{{{0, 0}, {0, 1}, {0, 2}}};
  for (const Visit& each : visits) queue.expect(each.round);
  ask(queue, visits[2]);
  ask(queue, visits[1]);
  EXPECT_THAT(granted(queue), testing::ElementsAre(&visits[1], &visits[2]));
  ask(queue, visits[0]);
  EXPECT_FALSE(queue.next());
  queue.give_back(1);
  const auto last = queue.next();
  ASSERT_TRUE(last);
  EXPECT_EQ(last->visit, visits.data());
  EXPECT_EQ(last->slot, 1);
}

TEST(SlotQueue, KeepsSlotsForAnEarlierRoundThatIsYetToAsk) {
  SlotQueue<Visit> queue(2);
  Visit late{0, 1};
  Visit early{0, 0};
  Visit next{1, 0};
  for (const Visit& each : {late, early, next}) queue.expect(each.round);
  ask(queue, early);
  ask(queue, next);
  EXPECT_THAT(granted(queue), testing::ElementsAre(&early));
  ask(queue, late);
  EXPECT_THAT(granted(queue), testing::ElementsAre(&late));
  queue.give_back(0);
  EXPECT_THAT(granted(queue), testing::ElementsAre(&next));
}

/// The order in which one slot goes round.
std::vector<Index> turns_in_order(SlotQueue<Visit>& queue) {
  std::vector<Index> turns;
  while (const auto grant = queue.next()) {
    turns.push_back(grant->visit->turn);
    queue.give_back(grant->slot);
  }
  return turns;
}

// As backward has it: the last layers are due, the first will be, and what forward needs first
// comes last.
TEST(SlotQueue, GivesSlotsToThoseThatAreDueThenToThoseThatWillBeNext) {
  SlotQueue<Visit> queue(1);
  std::array<Visit, 6> visits{{{0, 0}, {0, 1}, {0, 2}, {0, 3}, {0, 4}, {0, 5}}};
  for (Visit& each : visits) {
    queue.expect(each.round);
    queue.ask(each, each.round, each.turn, /*is_due=*/each.turn >= 4);
  }
  const auto first = queue.next();
  ASSERT_TRUE(first);
  EXPECT_EQ(first->visit->turn, 4);
  queue.end_round();
  // It has its slot: nothing changes for it.
  queue.fall_due(visits[4], 0, 4);
  queue.fall_due(visits[3], 0, 3);
  queue.give_back(first->slot);
  EXPECT_THAT(turns_in_order(queue), testing::ElementsAre(3, 5, 2, 1, 0));
}

TEST(SlotQueue, GivesNoneToThoseThatAreNotDueBeforeTheLastOfTheRoundIsKnown) {
  SlotQueue<Visit> queue(1);
  std::array<Visit, 3> visits{{{0, 0}, {0, 1}, {0, 2}}};
  for (Visit& each : visits) {
    queue.expect(each.round);
    queue.ask(each, each.round, each.turn, /*is_due=*/each.turn == 1);
    const std::vector<Index> expected(each.turn == 1 ? 1 : 0, 1);
    EXPECT_EQ(turns_in_order(queue), expected);
  }
  queue.end_round();
  EXPECT_THAT(turns_in_order(queue), testing::ElementsAre(2, 0));
}

TEST(SlotQueue, GivesNoneToThoseThatAreDueBeforeAnEarlierRoundHasThem) {
  SlotQueue<Visit> queue(1);
  std::array<Visit, 3> visits{{{0, 0}, {0, 1}, {1, 2}}};
  for (Visit& each : visits) {
    queue.expect(each.round);
    queue.ask(each, each.round, each.turn, /*is_due=*/each.round == 1);
  }
  queue.end_round();
  EXPECT_THAT(turns_in_order(queue), testing::ElementsAre(1, 0, 2));
}

}  // namespace
}  // namespace dos::offload::slot_queue_test
