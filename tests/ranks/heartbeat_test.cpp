// SPDX-License-Identifier: Apache-2.0
#include "ranks/heartbeat.hpp"

#include <gmock/gmock.h>

#include <string>

namespace dos::ranks::heartbeat_test {
namespace {

using ::testing::HasSubstr;
using ::testing::StrEq;

const Clock::time_point kStart{std::chrono::hours(1)};

Clock::time_point at(double seconds) {
  return kStart + std::chrono::duration_cast<Clock::duration>(Seconds(seconds));
}

/// Looks as often as a thread does that is never kept from running.
std::optional<Failure> look_until(Heartbeats& beats, double from, double to) {
  for (double t = from; t <= to; t += 1)
    if (const auto failure = beats.silent(at(t))) return failure;
  return std::nullopt;
}

TEST(Heartbeats, ARankAloneIsNeverSilentAndDone) {
  Heartbeats beats(0, 1, Seconds(10), kStart);
  EXPECT_FALSE(look_until(beats, 0, 100));
  EXPECT_TRUE(beats.all_done());
}

TEST(Heartbeats, AreDueByTheInterval) {
  Heartbeats beats(0, 2, Seconds(4), kStart);
  EXPECT_DOUBLE_EQ(beats.interval().count(), 0.5);
  EXPECT_TRUE(beats.is_due(at(0)));
  EXPECT_FALSE(beats.is_due(at(0.4)));
  EXPECT_TRUE(beats.is_due(at(0.6)));
  EXPECT_FALSE(beats.is_due(at(1.0)));
}

TEST(Heartbeats, ASilentRankIsNamedWithItsStep) {
  Heartbeats beats(0, 3, Seconds(10), kStart);
  beats.heard(1, Beat{.state = Beat::kAlive, .step = 6, .text = {}}, at(4));
  EXPECT_FALSE(look_until(beats, 0, 10));
  beats.heard(2, at(10));
  const auto failure = look_until(beats, 11, 20);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->rank, 1);
  EXPECT_THAT(failure->what, HasSubstr("rank 1 has not been heard of for 10 s"));
  EXPECT_THAT(failure->what, HasSubstr("at step 6"));
}

TEST(Heartbeats, ARankThatIsDoneMayBeSilent) {
  Heartbeats beats(1, 2, Seconds(10), kStart);
  EXPECT_FALSE(beats.all_done());
  beats.heard(0, Beat{.state = Beat::kDone, .step = 6, .text = {}}, at(4));
  EXPECT_TRUE(beats.all_done());
  EXPECT_FALSE(look_until(beats, 0, 100));
}

// It has sent all it will ever send: what is under way to or from it does not arrive.
TEST(Heartbeats, ARankThatIsDoneMayNotLeaveMessagesUnderWay) {
  const Beat done{.state = Beat::kDone, .step = 6, .text = {}};
  Heartbeats beats(1, 2, Seconds(10), kStart);
  beats.begin_message(0, at(0));
  beats.heard(0, done, at(4));
  EXPECT_FALSE(look_until(beats, 0, 14)) << "it may be on its way";
  const auto failure = look_until(beats, 15, 16);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->rank, 0);
  EXPECT_THAT(failure->what, HasSubstr("rank 0 ended at step 6 without the messages"));

  Heartbeats late(1, 2, Seconds(10), kStart);
  late.heard(0, done, at(4));
  EXPECT_FALSE(look_until(late, 0, 100));
  late.begin_message(0, at(100));
  late.begin_message(0, at(101));
  EXPECT_FALSE(look_until(late, 100, 111)) << "it counts from the last one";
  late.end_message(0);
  EXPECT_TRUE(look_until(late, 112, 113)) << "one of two has arrived";
  late.end_message(0);
  EXPECT_FALSE(look_until(late, 113, 200));
}

TEST(Heartbeats, ARankThatStoppedSaysWhy) {
  Heartbeats beats(0, 2, Seconds(10), kStart);
  const auto failure = beats.heard(1, stopped_beat(3, "disk full\nmore"), at(1));
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->rank, 1);
  EXPECT_EQ(failure->what, "rank 1 stopped at step 3: disk full");
}

TEST(Heartbeats, ALongReasonIsCut) {
  const Beat beat = stopped_beat(1, std::string(1000, 'x'));
  EXPECT_THAT(beat.text, StrEq(std::string(sizeof beat.text - 1, 'x')));
  EXPECT_THAT(stopped_beat(1, "").text, StrEq(""));
}

// A suspended process, or one on an overloaded machine, has heard nobody: that is not their fault.
TEST(Heartbeats, WhoWasAwayBlamesNobody) {
  Heartbeats beats(0, 2, Seconds(10), kStart);
  EXPECT_FALSE(beats.silent(at(1)));
  EXPECT_FALSE(beats.silent(at(500)));
  EXPECT_FALSE(look_until(beats, 501, 510));
  EXPECT_TRUE(look_until(beats, 510, 512));
}

}  // namespace
}  // namespace dos::ranks::heartbeat_test
