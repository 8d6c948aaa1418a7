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

}  // namespace
}  // namespace dos::offload::slot_queue_test
