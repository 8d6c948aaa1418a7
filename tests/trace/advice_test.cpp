// SPDX-License-Identifier: Apache-2.0
#include "trace/report/advice.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "sanitized.hpp"

namespace dos::trace::advice_test {
namespace {

using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;

/// One value of each, drawn: runs as they may be, and what their traces tell of them.
Facts drawn(std::mt19937& random) {
  const auto one_of = [&]<class T>(std::initializer_list<T> values) {
    return *(values.begin() + random() % values.size());
  };
  Facts facts;
  facts.cpu_workers = one_of({0, 1, 4});
  facts.devices = one_of({0, 1, 4});
  if (facts.cpu_workers + facts.devices == 0) facts.cpu_workers = 2;
  facts.ranks = one_of({1, 2});
  facts.policy = one_of({"dos", "gpu-only", "lws"});
  if (facts.devices > 0) {
    facts.bytes_to_devices = one_of({0, 1000});
    facts.bytes_to_host = one_of({0, 1000});
    facts.devices_run_model = one_of({true, false});
    facts.devices_update = one_of({true, false});
  }
  facts.cpus_update = facts.cpu_workers > 0 && (!facts.devices_update || one_of({true, false}));
  facts.cpu_task_us = one_of({5.0, 5000.0});
  facts.updates = one_of({2, 100});
  facts.update_part = one_of({0.002, 0.2});
  if (one_of({true, false, false})) return facts;  // a trace that does not tell its configuration
  facts.batch = one_of({1, 4, 8});
  facts.lanes = std::min<Index>(*facts.batch, one_of({1, 4, 8}));
  facts.accumulate = one_of({1, 2});
  facts.run_ahead = one_of({1, 2});
  facts.checkpoint_every = one_of({0, 10});
  facts.zero = one_of({1, 3});
  facts.clip = one_of({0.0, 1.0});
  facts.speculate = one_of({"off", "auto"});
  facts.share = one_of({-1.0, 0.5});
  facts.gpu_memory = one_of({0.0, 8.0});
  facts.resident = one_of({true, false});
  facts.precision = one_of({"fp32", "bf16"});
  facts.gradient_precision = facts.precision == "bf16" ? one_of({"fp32", "bf16"}) : "fp32";
  return facts;
}

/// All that this run can have lost time to, in any order.
std::vector<Cause> possible_causes(const Facts& facts, std::mt19937& random) {
  std::vector<Cause> causes;
  for (const CauseRow& row : cause_table())
    if (row.possible(facts)) causes.push_back(row.cause);
  std::shuffle(causes.begin(), causes.end(), random);
  return causes;
}

void expect_true_to(const Facts& facts, const std::string& text) {
  SCOPED_TRACE(text);
  if (facts.devices == 0) {
    for (const char* word : {"device", "GPU", "sched.share", "sched.window", "STARPU_SCHED"})
      EXPECT_THAT(text, Not(HasSubstr(word)));
  }
  if (facts.bytes_to_devices + facts.bytes_to_host == 0) {
    EXPECT_THAT(text, Not(AnyOf(HasSubstr("waited for data"), HasSubstr("moved"))));
  }
  if (facts.ranks == 1) {
    EXPECT_THAT(text, Not(HasSubstr("rank")));
  }
  if (facts.cpu_workers == 0) {
    EXPECT_THAT(text, Not(HasSubstr("CPU workers")));
  }
  if (facts.policy == "dos") {
    EXPECT_THAT(text, Not(HasSubstr("STARPU_SCHED")));
  }
  if (facts.batch) return;
  for (const char* key : {"train.lanes", "optim.clip", "optim.speculate", "dist.zero",
                          "train.run_ahead", "train.gradient_precision", "train.checkpoint_every",
                          "sched.resident", "train.gpu_memory", "train.accumulate"})
    EXPECT_THAT(text, Not(HasSubstr(key))) << "the trace does not tell it";
}

/// What the option's value leaves open.
void expect_can_turn(const Facts& facts, const Remedy& remedy) {
  SCOPED_TRACE(remedy.text);
  const std::string option = remedy.option;
  if (option == "train.lanes" && remedy.turn == Turn::kUp) {
    EXPECT_LT(facts.lanes, facts.batch);
    EXPECT_LT(facts.lanes, facts.cpu_workers);
  }
  if (option == "train.lanes" && remedy.turn == Turn::kDown) {
    EXPECT_GT(facts.lanes, facts.cpu_workers);
  }
  if (option == "train.batch" && remedy.turn == Turn::kDown) {
    EXPECT_GT(facts.batch, 1);
  }
  if (option == "dist.zero") {
    EXPECT_GT(facts.zero, 1);
  }
  if (option == "train.run_ahead") {
    EXPECT_EQ(facts.run_ahead, 1);
  }
  if (option == "train.checkpoint_every") {
    EXPECT_GT(facts.checkpoint_every, 0);
  }
  if (option == "train.gpu_memory") {
    EXPECT_GT(facts.gpu_memory, 0);
  }
  if (option == "optim.clip") {
    EXPECT_GT(facts.clip, 0);
    EXPECT_GE(facts.update_part, 0.01) << "nothing to win";
  }
  if (option == "optim.speculate") {
    EXPECT_GT(facts.clip, 0);
    EXPECT_EQ(facts.precision, "bf16");
    EXPECT_EQ(facts.speculate, "off");
  }
  if (option == "sched.resident") {
    EXPECT_EQ(facts.resident, false);
  }
  if (option == "train.gradient_precision") {
    EXPECT_EQ(facts.precision, "bf16");
    EXPECT_EQ(facts.gradient_precision, "fp32");
  }
  if (option == "sched.share" && remedy.turn == Turn::kUp) {
    EXPECT_TRUE(facts.cpus_update);
  }
  if (option == "train.workers") {
    EXPECT_GT(facts.cpu_workers, 1);
  }
}

constexpr int kRuns = 20'000;

TEST(Advice, FollowsFromWhatTheRunCouldHaveDone) {
  std::mt19937 random(1);
  for (int i = 0; i < test::cases(kRuns) && !testing::Test::HasFailure(); ++i) {
    const Facts facts = drawn(random);
    const std::vector<Cause> causes = possible_causes(facts, random);
    for (const Advice& advice : advise(facts, causes)) {
      expect_true_to(facts, row_of(advice.cause).what);
      expect_true_to(facts, in_words(advice));
      EXPECT_NE(in_words(advice), "") << row_of(advice.cause).what;
      for (const Remedy* remedy : advice.remedies) expect_can_turn(facts, *remedy);
    }
  }
}

TEST(Advice, NoTwoPiecesTurnAnOptionBothWays) {
  std::mt19937 random(2);
  bool withheld = false;
  for (int i = 0; i < test::cases(kRuns) && !testing::Test::HasFailure(); ++i) {
    const Facts facts = drawn(random);
    std::map<std::string, Turn> turned;
    for (const Advice& advice : advise(facts, possible_causes(facts, random))) {
      withheld = withheld || advice.withheld;
      for (const Remedy* remedy : advice.remedies) {
        const auto [first, is_new] = turned.emplace(remedy->option, remedy->turn);
        EXPECT_EQ(first->second, remedy->turn) << remedy->text;
      }
    }
  }
  EXPECT_TRUE(withheld) << "some were against each other";
}

TEST(Advice, NoneIsDead) {
  std::mt19937 random(3);
  std::set<std::string> given;
  for (int i = 0; i < kRuns; ++i) {
    const Facts facts = drawn(random);
    const std::vector<Cause> causes = possible_causes(facts, random);
    for (const Cause cause : causes) {
      const Advice alone = advise(facts, std::vector{cause}).front();
      for (const Remedy* remedy : alone.remedies) given.insert(remedy->text);
      if (alone.remedies.empty()) given.insert(in_words(alone));
    }
  }
  for (const CauseRow& row : cause_table()) {
    for (const Remedy& remedy : row.remedies)
      EXPECT_TRUE(given.contains(remedy.text)) << remedy.text;
    if (*row.otherwise == '\0') continue;
    EXPECT_TRUE(given.contains(row.otherwise)) << row.otherwise;
  }
}

}  // namespace
}  // namespace dos::trace::advice_test
