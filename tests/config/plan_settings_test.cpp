// SPDX-License-Identifier: Apache-2.0
#include "config/config_file.hpp"

#include <gmock/gmock.h>

#include "base/error.hpp"
#include "message_of.hpp"

namespace dos::config::plan_settings_test {
namespace {

using testing::HasSubstr;

std::string error_of(const std::string& assignment) {
  planner::PlanSettings settings;
  return test::message_of<Error>([&] { set_from_text(assignment, settings); });
}

TEST(PlannerSettings, AreSetFromText) {
  planner::PlanSettings settings;
  for (const char* each :
       {"sched.subgroup_params=123", "sched.stride=3", "sched.window=4", "sched.published=true",
        "sched.resident=false", "sched.half_duplex=true", "sched.gradient_flush=update",
        "sched.flush_mode=blocking", "train.recompute=false", "train.precision=fp32",
        "optim.rule=lion", "optim.speculate=auto"})
    set_from_text(each, settings);
  EXPECT_EQ(settings.subgroup_params, 123);
  EXPECT_EQ(settings.policy.stride, 3);
  EXPECT_EQ(settings.policy.window, 4);
  EXPECT_TRUE(settings.policy.published);
  EXPECT_FALSE(settings.policy.residents);
  EXPECT_TRUE(settings.policy.half_duplex);
  EXPECT_TRUE(settings.flush_in_update);
  EXPECT_TRUE(settings.flush_is_blocking);
  EXPECT_TRUE(settings.activations.keeps_all());
  EXPECT_TRUE(settings.fp32);
  EXPECT_EQ(settings.speculation, planner::SpeculationChoice::kAuto);
  EXPECT_EQ(settings.rule_states, 1);
  set_from_text("optim.rule=adamw", settings);
  EXPECT_EQ(settings.rule_states, 2);
  set_from_text("optim.freeze=a.*,b", settings);
  EXPECT_EQ(settings.trained.frozen, (std::vector<std::string>{"a.*", "b"}));
  set_from_text("optim.lr_factors=c:2", settings);
  ASSERT_EQ(settings.trained.factors.size(), 1U);
  EXPECT_EQ(settings.trained.factors.front().factor, 2);
}

TEST(PlannerSettings, ErrorsNameTheValue) {
  EXPECT_THAT(error_of("sched.stride"), HasSubstr("write key=value"));
  EXPECT_THAT(error_of("sched.strid=2"), HasSubstr("(did you mean 'sched.stride'?)"));
  EXPECT_THAT(error_of("sched.stride=two"), HasSubstr("'two' is not an integer"));
  EXPECT_THAT(error_of("sched.stride=0"), HasSubstr("sched.stride = 0 must be at least 1"));
  EXPECT_THAT(error_of("sched.share=1.01"), HasSubstr("sched.share = 1.01 must lie"));
  EXPECT_THAT(error_of("sched.share="), HasSubstr("'' is not a number"));
  EXPECT_THAT(error_of("sched.published=yes"), HasSubstr("'yes' is not true or false"));
  EXPECT_THAT(error_of("train.precision=fp8"), HasSubstr("known: bf16, fp32"));
  EXPECT_THAT(error_of("optim.rule=adam"), HasSubstr("did you mean 'adamw'?"));
  EXPECT_THAT(error_of("sched.subgroup_params=-1"), HasSubstr("must be at least 0"));
  EXPECT_THAT(error_of("optim.lr_factors=c=2"), HasSubstr("'c=2' is no PATTERN:FACTOR"));
}

}  // namespace
}  // namespace dos::config::plan_settings_test
