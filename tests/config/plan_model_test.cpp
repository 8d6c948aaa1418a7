// SPDX-License-Identifier: Apache-2.0
#include "config/plan_model.hpp"

#include <gmock/gmock.h>

#include "base/error.hpp"
#include "base/file.hpp"
#include "config/config_file.hpp"
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
  EXPECT_EQ(request.settings.activations, shape::kRecomputeAll);
  EXPECT_FALSE(request.settings.fp32);
}

// Of two names of one choice the one that was said.
TEST(PlannedConfiguration, SaysWhatBecomesOfActivations) {
  EXPECT_TRUE(planned("").settings.activations.keeps_all());
  const planner::PlanSettings some =
      planned("[train]\nactivations = \"host:2,selective:3\"\n").settings;
  EXPECT_EQ(some.activations, (shape::ActivationPlan{.hosted = 2, .selective = 3}));
  EXPECT_FALSE(some.chooses_activations);
  EXPECT_TRUE(planned("[train]\nactivations = \"auto\"\n").settings.chooses_activations);
  planner::PlanSettings settings;
  EXPECT_EQ(settings.activations, shape::kRecomputeAll);
  set_from_text("train.activations=auto", settings);
  EXPECT_TRUE(settings.chooses_activations);
  set_from_text("train.recompute=false", settings);
  EXPECT_FALSE(settings.chooses_activations);
  EXPECT_TRUE(settings.activations.keeps_all());
  EXPECT_THAT(test::message_of<Error>([&] { set_from_text("train.activations=tape", settings); }),
              testing::HasSubstr("'tape' is no way to have them"));
}

TEST(PlannedConfiguration, SaysWhatGoesAheadOfTheNorm) {
  const auto speculation = [](const std::string& keys) {
    return planned("[train]\nprecision = \"bf16\"\n[optim]\n" + keys).settings.speculation;
  };
  EXPECT_EQ(speculation(""), planner::SpeculationChoice::kOff);
  EXPECT_EQ(speculation("speculate = \"on\"\n"), planner::SpeculationChoice::kOn);
  EXPECT_EQ(speculation("speculate = \"auto\"\n"), planner::SpeculationChoice::kAuto);
}

TEST(PlannedConfiguration, SaysWhetherUpdatesWaitForTheNorm) {
  EXPECT_TRUE(planned("").settings.clips);
  EXPECT_TRUE(planned("[optim]\nclip = 0.5\n").settings.clips);
  EXPECT_FALSE(planned("[optim]\nclip = 0\n").settings.clips);
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
