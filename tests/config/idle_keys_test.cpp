// SPDX-License-Identifier: Apache-2.0
#include "config/idle_keys.hpp"

#include <gmock/gmock.h>

#include "config/config_file.hpp"
#include "optim/rules.hpp"

namespace dos::config::idle_keys_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> words_on(const std::vector<std::string>& assignments) {
  TrainConfig config;
  for (const std::string& each : assignments) set_from_text(each, config);
  return words_on_idle_keys(config);
}

TEST(IdleKeys, AreNoneByDefault) {
  for (const std::string& rule : optim::known_rules())
    EXPECT_THAT(words_on({"optim.rule=" + rule}), IsEmpty()) << rule;
  EXPECT_THAT(words_on({"train.steps=4"}), IsEmpty()) << "the default warm-up is longer";
}

TEST(IdleKeys, OfTheRuleAreNamedWithIt) {
  EXPECT_THAT(words_on({"optim.momentum=0.5"}),
              ElementsAre("optim.momentum is set and not used: optim.rule=adamw does not read it"));
  EXPECT_THAT(words_on({"optim.momentum=0.5", "optim.rule=sgd"}), IsEmpty());
  EXPECT_THAT(words_on({"optim.beta1=0.5", "optim.beta2=0.5", "optim.eps=1", "optim.rule=sgd"}),
              ElementsAre(HasSubstr("optim.beta1"), HasSubstr("optim.beta2"), HasSubstr("eps")));
  EXPECT_THAT(words_on({"optim.eps=1", "optim.rule=adagrad"}), IsEmpty());
  EXPECT_THAT(words_on({"optim.eps=1", "optim.rule=lion"}), ElementsAre(HasSubstr("optim.eps")));
}

TEST(IdleKeys, OfWhatIsNotAskedForAreNamedWithWhoReadsThem) {
  for (const char* copies : {"train.checkpoint_copy_every=3", "train.checkpoint_copy_rate=1"}) {
    EXPECT_THAT(words_on({copies}),
                ElementsAre(HasSubstr("not used: it needs train.checkpoint_local")));
    EXPECT_THAT(words_on({copies, "train.checkpoint_local=/nvme"}), IsEmpty());
  }
  EXPECT_THAT(words_on({"train.mtbf_hours=3"}), ElementsAre(HasSubstr("checkpoint_every=auto")));
  EXPECT_THAT(words_on({"train.mtbf_hours=3", "train.checkpoint_every=auto"}), IsEmpty());
  EXPECT_THAT(words_on({"train.activation_disks=/nvme"}), ElementsAre(HasSubstr("activations")));
  EXPECT_THAT(words_on({"train.activation_disks=/nvme", "train.activations=auto"}), IsEmpty());
  EXPECT_THAT(words_on({"optim.final_lr_ratio=0.5", "optim.schedule=constant"}),
              ElementsAre(HasSubstr("optim.schedule=cosine or linear")));
}

TEST(IdleKeys, BeyondTheStepsAreNamed) {
  EXPECT_THAT(words_on({"train.steps=4", "optim.warmup=1000000", "train.stop_after=5"}),
              ElementsAre(HasSubstr("optim.warmup = 1000000 of train.steps = 4"),
                          HasSubstr("train.stop_after = 5 is beyond train.steps = 4")));
  EXPECT_THAT(words_on({"train.steps=4", "optim.warmup=4", "train.stop_after=4"}), IsEmpty());
}

}  // namespace
}  // namespace dos::config::idle_keys_test
