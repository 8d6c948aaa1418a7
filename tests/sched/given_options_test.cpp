// SPDX-License-Identifier: Apache-2.0
#include "sched/given_options.hpp"

#include <gmock/gmock.h>

#include <limits>

#include "base/error.hpp"
#include "message_of.hpp"
#include "problems.hpp"
#include "sched/policy_registry.hpp"

namespace dos::sched::given_options_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string unread(const std::string& policy, const PolicyOptions& given) {
  return test::message_of<Error>([&] { expect_read(policy, given, "--{} {}"); });
}

TEST(ExpectRead, NamesOptionPolicyAndThoseThatReadIt) {
  EXPECT_EQ(unread("gpu-only", {.share = 0.5}),
            "--share 0.5: policy gpu-only does not read it: leave it out, or choose dos, twinflow");
  EXPECT_THAT(unread("zero-offload", {.share = 0.0}), HasSubstr("--share 0"));
  EXPECT_THAT(unread("dos-stride", {.share = 0.5}), HasSubstr("--share 0.5"));
  for (const char* policy : {"twinflow", "zero-offload", "gpu-only", "dmdas"})
    EXPECT_THAT(unread(policy, {.stride = 2}),
                AllOf(HasSubstr("--stride 2"), HasSubstr("choose dos, dos-stride")));
  for (const char* policy : {"twinflow", "zero-offload"})
    EXPECT_THAT(unread(policy, {.window = 2}), HasSubstr("--window 2"));
  for (const char* policy : {"dos", "gpu-only"})
    EXPECT_THAT(unread(policy, {.published = true}), HasSubstr("--published true"));
  EXPECT_THAT(unread("dos-stride", {.window = 2, .published = true}), HasSubstr("one buffer"));
}

TEST(ExpectRead, LetsPassWhatIsReadAndWhatAllRead) {
  for (const Policy& policy : policies())
    EXPECT_EQ(unread(policy.name, {.residents = false, .half_duplex = true}), "");
  EXPECT_EQ(unread("dos", {.share = 0.5, .window = 2}), "");
  EXPECT_EQ(unread("twinflow", {.share = 0.5, .published = true}), "");
  EXPECT_EQ(unread("dos-stride", {.stride = 2, .published = true}), "");
}

// What the registry says of a policy is what its function does: an option that it does not read
// leaves its plan as it is.
TEST(ExpectRead, AgreesWithThePolicies) {
  const Problem problem = test::simple_problem(12, 3, 12);
  for (const Policy& policy : policies()) {
    const auto places = [&](const PolicyOptions& options) {
      const Plan plan = policy.plan(problem, options);
      std::vector<Index> all = plan.window;
      for (const Assignment& each : plan.assignments) all.push_back(!is_on_cpu(each));
      return all;
    };
    const auto base = places({});
    EXPECT_TRUE(policy.reads.stride || places({.stride = 2}) == base) << policy.name;
    EXPECT_TRUE(policy.reads.share || places({.share = 0.5}) == base) << policy.name;
    EXPECT_TRUE(policy.reads.window || places({.window = 1}) == base) << policy.name;
  }
}

TEST(ExpectWindowFits, NamesTheLargestThatFits) {
  Problem problem = test::simple_problem(12, 3, 12);
  const auto error_with = [&](Index window) {
    return test::message_of<Error>(
        [&] { expect_window_fits(problem, {.window = window}, "sched.{} = {}"); });
  };
  problem.memory[0].update = problem.held_bytes(0) * 5.5;
  EXPECT_EQ(error_with(5), "");
  EXPECT_THAT(error_with(6), AllOf(HasSubstr("sched.window = 6"), HasSubstr("at most 5 fit")));
  EXPECT_THAT(error_with(std::numeric_limits<Index>::max()), HasSubstr("at most 5 fit"));
  problem.memory[0].update = problem.held_bytes(0) * 0.5;
  EXPECT_THAT(error_with(1), HasSubstr("none fits, use smaller subgroups"));
  problem.memory.clear();
  problem.rates.gpus.clear();
  EXPECT_EQ(error_with(9), "");
}

}  // namespace
}  // namespace dos::sched::given_options_test
