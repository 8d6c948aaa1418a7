// SPDX-License-Identifier: Apache-2.0
#include "train/handshake.hpp"

#include <gmock/gmock.h>

#include "train/tiny_trainer.hpp"

namespace dos::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class HandshakeTest : public ::testing::Test {
 protected:
  [[nodiscard]] RankStart start(const TrainConfig& config) const {
    const data::Dataset dataset = data::open_dataset(config.data.path);
    return {.agreement = agreement_of(config, config.resolve_model(0), dataset, nullptr)};
  }

  test::ScratchDirectory scratch_;
  TrainConfig config_ = test::tiny_config(test::write_tiny_dataset(scratch_));
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
}  // namespace dos::train
