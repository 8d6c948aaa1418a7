// SPDX-License-Identifier: Apache-2.0
#include "config/plan_model.hpp"

#include <gmock/gmock.h>

#include "base/error.hpp"
#include "base/file.hpp"
#include "message_of.hpp"
#include "scratch_directory.hpp"

namespace dos::config::plan_model_test {
namespace {

TEST(PlannedModel, GptShapesHaveTheNumbersOfTheirPapers) {
  // 175 B and 1008 B parameters.
  EXPECT_NEAR(static_cast<double>(find_planned_model("gpt3-175b").params()) / 1e9, 175, 0.5);
  EXPECT_NEAR(static_cast<double>(find_planned_model("gpt-1t").params()) / 1e9, 1008, 0.5);
}

TEST(PlannedModel, UnknownNamesAreRefused) {
  EXPECT_THROW(find_planned_model("gpt3-175"), Error);
}

planner::Request planned(const std::string& text) {
  const test::ScratchDirectory folder;
  write_durably(folder / "mine.toml", text);
  planner::Request request;
  take_configuration(folder / "mine.toml", request);
  return request;
}

std::string error_of(const std::string& text) {
  return test::message_of<Error>([&] { planned(text); });
}

TEST(PlannedConfiguration, SaysWhatTrainGptWouldDo) {
  const planner::Request request = planned(
      "[model]\npreset = \"gpt2-124m\"\nlayers = 6\n[train]\nbatch = 3\nprecision = \"bf16\"\n"
      "recompute = true\n[sched]\nsubgroup_params = 7000\nshare = 0.25\nwindow = 4\nresident = "
      "false\n"
      "[dist]\nzero = 2\n");
  EXPECT_EQ(request.model.config.layers, 6);
  EXPECT_EQ(request.micro_batch, 3);
  EXPECT_EQ(request.settings.subgroup_params, 7000);
  EXPECT_EQ(request.settings.policy.share, 0.25);
  EXPECT_EQ(request.settings.policy.window, 4);
  EXPECT_FALSE(request.settings.policy.stride);
  EXPECT_FALSE(request.settings.policy.residents);
  EXPECT_EQ(request.settings.zero, 2);
  EXPECT_TRUE(request.settings.recompute);
  EXPECT_FALSE(request.settings.fp32);
}

TEST(PlannedConfiguration, HasTheDefaultsOfTrainGpt) {
  const planner::Request request = planned("[model]\npreset = \"tiny\"\n");
  EXPECT_EQ(request.micro_batch, 8);
  EXPECT_EQ(request.settings.subgroup_params, 5'000'000);
  EXPECT_FALSE(request.settings.policy.share);
  EXPECT_FALSE(request.settings.policy.window);
  EXPECT_EQ(request.settings.zero, 1);
  EXPECT_TRUE(request.settings.fp32);
}

TEST(PlannedConfiguration, NamesFileAndKeyOfWhatIsWrong) {
  EXPECT_THAT(
      error_of("[sched]\nshare = 1.5\n"),
      testing::AllOf(testing::HasSubstr("mine.toml: sched.share"), testing::HasSubstr("1.5")));
  EXPECT_THAT(error_of("[model]\npreset = \"nano\"\n"), testing::HasSubstr("mine.toml: "));
  EXPECT_THAT(error_of("[sched]\nwindw = 1\n"), testing::HasSubstr("mine.toml:2: unknown key"));
}

}  // namespace
}  // namespace dos::config::plan_model_test
