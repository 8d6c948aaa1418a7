// SPDX-License-Identifier: Apache-2.0
#include "launch/handshake.hpp"

#include <gmock/gmock.h>

#include "config/option_values.hpp"
#include "train/tiny_trainer.hpp"

namespace dos::launch::handshake_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class HandshakeTest : public ::testing::Test {
 protected:
  [[nodiscard]] RankStart start(const config::TrainConfig& config) const {
    const data::Sources sources = data::open_sources(config.data_sources());
    return {.agreement = agreement_of(test::tiny_run(config), sources, nullptr)};
  }

  test::ScratchDirectory scratch_;
  config::TrainConfig config_ = test::tiny_config(test::write_tiny_dataset(scratch_));
};

TEST_F(HandshakeTest, EqualRanksAgree) {
  EXPECT_EQ(find_disagreement({start(config_)}), "");
  EXPECT_EQ(find_disagreement({start(config_), start(config_), start(config_)}), "");
}

TEST_F(HandshakeTest, WhatBelongsToANodeMayDiffer) {
  const RankStart first = start(config_);
  config_.train.workers = 3;
  config_.train.cuda_devices = 0;
  config_.sched.share = 0.5;
  EXPECT_EQ(find_disagreement({first, start(config_)}), "");
}

TEST_F(HandshakeTest, EachKeyIsComparedByItsScope) {
  const data::Sources sources = data::open_sources(config_.data_sources());
  const train::Run run = test::tiny_run(config_);
  const auto start_of = [&](const config::TrainConfig& config) {
    return RankStart{.agreement = agreement_of(run.with(config), sources, nullptr)};
  };
  config::TrainConfig other;
  for (std::size_t i = 0; i < keys_of(other).size(); ++i) {
    other = config_;
    const config::Key key = keys_of(other)[i];
    test::set_other(key);
    const std::string found = find_disagreement({start_of(config_), start_of(other)});
    if (key.option->scope == config::Scope::kNode)
      EXPECT_EQ(found, "") << key.name;
    else
      EXPECT_THAT(found, HasSubstr("rank 1 has configuration." + key.name + " = "));
  }
}

TEST_F(HandshakeTest, ADifferenceNamesTheRankTheKeyAndBothValues) {
  const RankStart first = start(config_);
  config_.train.batch = 4;
  EXPECT_THAT(
      find_disagreement({first, first, start(config_)}),
      AllOf(HasSubstr("rank 2 has configuration.train.batch = 4"), HasSubstr("rank 0 has 3")));
}

TEST_F(HandshakeTest, AnotherModelOrCheckpointIsFound) {
  const RankStart first = start(config_);
  RankStart other = first;
  other.agreement["model"]["layers"] = 9;
  EXPECT_THAT(find_disagreement({first, other}), HasSubstr("rank 1 has model.layers = 9"));
  other = first;
  other.agreement["checkpoint"] = 12;
  EXPECT_THAT(find_disagreement({first, other}), HasSubstr("rank 1 has checkpoint = 12"));
  other = first;
  other.agreement["program"]["revision"] = "x";
  EXPECT_THAT(find_disagreement({first, other}), HasSubstr("program.revision"));
}

TEST_F(HandshakeTest, FilesOfOtherLengthOrContentAreFound) {
  const RankStart first = start(config_);
  const test::ScratchDirectory elsewhere;
  config_.data.path = test::write_tiny_dataset(elsewhere);
  EXPECT_EQ(find_disagreement({first, start(config_)}), "") << "the same data in another place";
  const auto write = [&](std::int32_t count, std::int32_t first_token) {
    data::TokenWriter writer(elsewhere / "data_train.bin", 257);
    std::vector<std::int32_t> tokens{first_token};
    for (std::int32_t i = 1; i < count; ++i) tokens.push_back(i * i % 257);
    writer.append(tokens);
    writer.commit();
  };
  write(499, 0);
  EXPECT_THAT(find_disagreement({first, start(config_)}),
              AllOf(HasSubstr("rank 1 has data.train"), HasSubstr("same")));
  write(500, 1);
  EXPECT_THAT(find_disagreement({first, start(config_)}), HasSubstr("rank 1 has data.train"));
}

TEST_F(HandshakeTest, AnErrorComesBeforeDifferences) {
  const RankStart first = start(config_);
  EXPECT_EQ(find_disagreement({first, {}, {.error = "x_train.bin: cannot open"}}),
            "rank 2: x_train.bin: cannot open");
}

}  // namespace
}  // namespace dos::launch::handshake_test
