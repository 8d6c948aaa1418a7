// SPDX-License-Identifier: Apache-2.0
// Started by mpiexec on 1, 2, 3 or 4 ranks: every rank runs every test.
#include "ranks/sharding.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>
#include <tuple>

#include "fit/estimate.hpp"
#include "models/family.hpp"
#include "ranks/expected_traffic.hpp"
#include "ranks/gather.hpp"
#include "ranks/message_addresses.hpp"
#include "rt/two_memory_nodes.hpp"
#include "shape/owners.hpp"
#include "train/tiny_trainer.hpp"

namespace dos::ranks::sharding_test {
namespace {

platform::MpiEnvironment* environment = nullptr;

constexpr Index kSteps = 5;
constexpr Index kBatch = 2;

/// One line of metrics.jsonl.
struct Line {
  double loss = 0;
  double norm = 0;
};

struct Outcome {
  std::vector<Line> lines;    ///< of training; on rank 0
  std::vector<float> values;  ///< of the subgroups that this rank owns; of all for one rank
  ranks::Traffic sent;
  Index messages = 0;  ///< that MessageAddresses saw
  Index messages_in_host = 0;
  rt::MemoryBytes counted;
  rt::MemoryBytes estimated;
};

std::vector<Line> read_metrics(const std::filesystem::path& path) {
  std::vector<Line> lines;
  std::ifstream file(path);
  for (std::string text; std::getline(file, text);) {
    const auto json = nlohmann::json::parse(text);
    if (json.contains("loss")) lines.push_back({json["loss"], json["grad_norm"]});
  }
  return lines;
}

class ShardingTest : public ::testing::Test {
 protected:
  ShardingTest() {
    config_ = test::tiny_config(test::write_tiny_dataset(scratch_));
    config_.model.layers = 3;
    config_.train.steps = 20;
    config_.train.stop_after = kSteps;
    config_.train.batch = kBatch;
    config_.train.lanes = kBatch;
    // Proportional to gradients, unlike Adam's: what is wrong shows, roundings stay roundings.
    config_.optim.rule = "sgd";
    config_.optim.lr = 0.1;
    config_.optim.schedule = "constant";
    config_.optim.warmup = 0;
  }

  [[nodiscard]] shape::Layout layout() const { return test::tiny_run(config_).layout; }

  /// This rank's part of a run, or a whole run of one rank (without an exchange).
  Outcome train(const RankShare& share, ranks::Exchange* exchange) {
    std::string out = scratch_ / ("run" + std::to_string(runs_++));
    if (exchange != nullptr) out = gather_texts(*exchange, out).front();
    const bool one_node = message_node_ == rt::kHostNode;
    rt::Session session(one_node ? rt::SessionConfig{.scheduler = "", .cpu_workers = 1}
                                 : test::TwoMemoryNodes::session());
    const auto trainer = test::make_trainer(session, config_, out, share, exchange, message_node_);
    Outcome outcome;
    outcome.counted = session.memory().now();
    outcome.estimated = fit::estimate_training(
        config_.resolve_model(0), config_.run_shape({}), trainer->parameters().layout(),
        config_.parameter_types(), config_.optimizer(), {.all = session.workers()},
        config_.train.run_ahead, share);
    test::MessageAddresses addresses(exchange);
    trainer->start_fresh();
    trainer->run();
    if (share.rank == 0) outcome.lines = read_metrics(std::filesystem::path(out) / "metrics.jsonl");
    const tensor::ParameterSet& parameters = trainer->parameters();
    for (Index i = 0; i < std::ssize(parameters.layout().subgroups); ++i) {
      if (!parameters.ownership().owns(i)) continue;
      const rt::HostAccess access(parameters.values()[i], rt::Mode::kRead);
      const auto values = access.as<const float>();
      outcome.values.insert(outcome.values.end(), values.begin(), values.end());
    }
    const std::set<const void*> host = test::host_copies(parameters);
    addresses.stop();
    outcome.messages = std::ssize(addresses.seen());
    outcome.messages_in_host = std::ranges::count_if(
        addresses.seen(), [&](const void* address) { return host.contains(address); });
    return outcome;
  }

  [[nodiscard]] RankShare my_share(Index zero) const {
    if (environment->size() == 1)
      return {.owners = std::vector<Index>(layout().subgroups.size(), 0)};
    return share_of(layout(), environment->rank(),
                    dist_weights_.empty()
                        ? std::vector<double>(static_cast<std::size_t>(environment->size()), 1)
                        : dist_weights_,
                    zero);
  }

  Outcome train_together(Index zero) {
    if (environment->size() == 1) return train({}, nullptr);
    const RankShare share = my_share(zero);
    ranks::Exchange exchange(*environment, {.numbers = std::ssize(share.owners)});
    Outcome outcome = train(share, &exchange);
    exchange.close();
    outcome.sent = exchange.sent();
    return outcome;
  }

  /// Bytes of parameters that this rank sends before the first step: to all ranks that keep them.
  [[nodiscard]] Index first_parameters(const RankShare& share, Index bytes) const {
    const shape::Layout cut = layout();
    const tensor::Slots slots(cut, shape::kSlotSets);
    Index count = 0;
    for (std::size_t i = 0; i < share.owners.size(); ++i)
      if (share.owners[i] == environment->rank() &&
          !(share.zero == 3 && slots.are_shared(cut.subgroups[i].depth)))
        count += cut.subgroups[i].count;
    return count * bytes * (environment->size() - 1);
  }

  /// The same samples in the same lanes on one rank.
  Outcome train_alone() {
    const config::TrainConfig together = config_;
    config_.train.batch *= environment->size();
    config_.train.lanes *= environment->size();
    Outcome outcome = train({}, nullptr);
    config_ = together;
    return outcome;
  }

  /// Elements of `all` in the subgroups that this rank owns.
  [[nodiscard]] std::vector<float> owned_of(const std::vector<float>& all, Index zero) const {
    const shape::Layout cut = layout();
    const tensor::Ownership ownership = my_share(zero).ownership();
    std::vector<float> owned;
    auto from = all.begin();
    for (Index i = 0; i < std::ssize(cut.subgroups); ++i) {
      const auto end = from + cut.subgroups[static_cast<std::size_t>(i)].count;
      if (ownership.owns(i)) owned.insert(owned.end(), from, end);
      from = end;
    }
    return owned;
  }

  /// Losses, norms and weights are those of the same samples on one rank.
  void expect_as_alone();

  test::ScratchDirectory scratch_;
  config::TrainConfig config_;
  std::vector<double> dist_weights_;
  int message_node_ = rt::kHostNode;
  int runs_ = 0;
};

// A gradient is the sum of n = ranks x lanes x micro-batches parts, in two orders: at most n - 1
// roundings each, of sums that are at most n times the result where parts do not cancel. Beyond
// that order nothing differs. So a parameter is off by 2 n^2 eps / 2 of what the steps changed it
// by.
void expect_close(double a, double b, Index parts, double scale) {
  constexpr double kEps = 0x1p-23;
  EXPECT_NEAR(a, b, static_cast<double>(parts * parts * kSteps) * kEps * scale);
}

TEST_F(ShardingTest, LossesNormsAndWeightsAreThoseOfOneRank) {
  expect_as_alone();
}

// Where ranks and micro-batches have different numbers of targets, means of means are others.
TEST_F(ShardingTest, LossesNormsAndWeightsAreThoseOfOneRankWhereSomeTokensCount) {
  config_.data.path = test::write_masked_tiny_dataset(scratch_);
  expect_as_alone();
}

void ShardingTest::expect_as_alone() {
  constexpr Index kAccumulate = 2;
  config_.train.accumulate = kAccumulate;
  const Outcome alone = train_alone();
  ASSERT_EQ(std::ssize(alone.lines), kSteps);
  ASSERT_GT(std::abs(alone.lines.back().loss - alone.lines.front().loss), 0.01)
      << "far more than the tolerance";
  const Index parts = environment->size() * kBatch * kAccumulate;
  for (const Index zero : {1, 2, 3}) {
    SCOPED_TRACE(zero);
    const Outcome together = train_together(zero);
    // All have one folder: what another rank wrote would stand there, too.
    if (environment->rank() == 0) {
      ASSERT_EQ(together.lines.size(), alone.lines.size());
    }
    for (std::size_t i = 0; i < together.lines.size(); ++i) {
      expect_close(together.lines[i].loss, alone.lines[i].loss, parts, 1);
      expect_close(together.lines[i].norm, alone.lines[i].norm, parts, alone.lines[i].norm);
    }
    const std::vector<float> expected = owned_of(alone.values, zero);
    ASSERT_EQ(together.values.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i)
      expect_close(together.values[i], expected[i], parts, 1);
  }
}

TEST_F(ShardingTest, EveryZeroLevelHasTheSameBits) {
  const Outcome first = train_together(1);
  for (const Index zero : {2, 3}) EXPECT_EQ(train_together(zero).values, first.values) << zero;
}

TEST_F(ShardingTest, Bf16WithItsOwnGradientsHasTheSameBitsToo) {
  config_.train.precision = "bf16";
  config_.train.gradient_precision = "bf16";
  const Outcome first = train_together(1);
  for (const Index zero : {2, 3}) EXPECT_EQ(train_together(zero).values, first.values) << zero;
}

/// Sets of frozen parameters: a layer in the middle; all below the last layer, and its norms.
constexpr const char* kFrozen[] = {"blocks.1.*", "*_embedding.*,blocks.[01].*,*.norm?.*"};

TEST_F(ShardingTest, WhatIsFrozenIsNoWorkAndTheRestHasTheSameBits) {
  for (const char* freeze : kFrozen) {
    SCOPED_TRACE(freeze);
    config_.optim.freeze = freeze;
    const Outcome alone = train_alone();
    const Outcome first = train_together(1);
    const std::vector<float> expected = owned_of(alone.values, 1);
    ASSERT_EQ(first.values.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i)
      expect_close(first.values[i], expected[i], environment->size() * kBatch, 1);
    for (const Index zero : {2, 3}) EXPECT_EQ(train_together(zero).values, first.values) << zero;
  }
}

TEST_F(ShardingTest, BytesOfAFrozenModelAreTheTheorys) {
  constexpr Index kAccumulate = 2;
  config_.train.accumulate = kAccumulate;
  for (const char* freeze : kFrozen)
    for (const Index zero : {1, 2, 3}) {
      SCOPED_TRACE(testing::Message() << freeze << zero);
      config_.optim.freeze = freeze;
      const RankShare share = my_share(zero);
      const ranks::Traffic step = test::expected_traffic(layout(), share.owners,
                                                         {.zero = zero,
                                                          .rank = environment->rank(),
                                                          .ranks = environment->size(),
                                                          .accumulate = kAccumulate});
      // The first step finds nothing in the buffers that layers share: the second and third count.
      config_.train.stop_after = 1;
      const Outcome one = train_together(zero);
      config_.train.stop_after = 3;
      const Outcome three = train_together(zero);
      for (const MemoryCategory category : kBufferCategories)
        EXPECT_EQ(three.estimated[category], three.counted[category]) << name_of(category);
      for (const ranks::Kind kind : {ranks::Kind::kGradient, ranks::Kind::kParameter})
        EXPECT_EQ(three.sent[kind] - one.sent[kind], 2 * step[kind]) << ranks::name_of(kind);
      Index updated = 0;
      for (std::size_t i = 0; i < share.owners.size(); ++i)
        updated += share.owners[i] == environment->rank() && layout().subgroups[i].trained;
      EXPECT_EQ(three.sent[ranks::Kind::kSums], 3 * 8 * updated * (environment->size() - 1));
    }
}

TEST_F(ShardingTest, WithoutClippingEachSubgroupHasItsFactor) {
  config_.optim.clip = 0;
  config_.optim.lr = 0.05;
  const Outcome alone = train_alone();
  const Outcome together = train_together(2);
  const std::vector<float> expected = owned_of(alone.values, 2);
  for (std::size_t i = 0; i < expected.size(); ++i)
    expect_close(together.values[i], expected[i], environment->size() * kBatch, 1);
}

TEST_F(ShardingTest, BytesSentAreTheTheorysAndMemoryIsWhatTheEstimateSays) {
  constexpr Index kCounted = 2;
  config_.train.stop_after = kCounted;
  for (const auto& [precision, bytes, accumulate] :
       {std::tuple{"fp32", Index{4}, Index{2}}, {"bf16", Index{2}, Index{1}}}) {
    config_.train.precision = precision;
    config_.train.gradient_precision = precision;
    config_.train.accumulate = accumulate;
    for (const Index zero : {1, 2, 3}) {
      SCOPED_TRACE(testing::Message() << precision << accumulate << zero);
      const Outcome outcome = train_together(zero);
      for (const MemoryCategory category : kBufferCategories)
        EXPECT_EQ(outcome.estimated[category], outcome.counted[category]) << name_of(category);
      const test::TrafficCase step{.zero = zero,
                                   .rank = environment->rank(),
                                   .ranks = environment->size(),
                                   .accumulate = accumulate,
                                   .gradient_bytes = bytes,
                                   .parameter_bytes = bytes};
      const RankShare share = my_share(zero);
      const ranks::Traffic expected = test::expected_traffic(layout(), share.owners, step);
      EXPECT_EQ(outcome.sent[ranks::Kind::kGradient], kCounted * expected[ranks::Kind::kGradient]);
      EXPECT_EQ(outcome.sent[ranks::Kind::kParameter],
                kCounted * expected[ranks::Kind::kParameter] + first_parameters(share, bytes));
      // A rank's own sums and its loss to each other rank.
      const auto owned = std::ranges::count(share.owners, environment->rank());
      const Index peers = environment->size() - 1;
      EXPECT_EQ(outcome.sent[ranks::Kind::kSums], kCounted * 8 * owned * peers);
      EXPECT_EQ(outcome.sent[ranks::Kind::kLoss], kCounted * 8 * peers);
    }
  }
}

TEST_F(ShardingTest, ARankMayOwnNothing) {
  dist_weights_.assign(static_cast<std::size_t>(environment->size()), 1e-9);
  dist_weights_.back() = 1;  // the last rank owns all
  const Outcome alone = train_alone();
  const Outcome together = train_together(3);
  const std::vector<float> expected = owned_of(alone.values, 3);
  EXPECT_EQ(expected.empty(), environment->rank() + 1 != environment->size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    expect_close(together.values[i], expected[i], environment->size() * kBatch, 1);
}

TEST_F(ShardingTest, MessagesOutOfAndIntoAnotherMemoryHaveTheSameBits) {
  if (test::TwoMemoryNodes::kObstacle != nullptr) GTEST_SKIP() << test::TwoMemoryNodes::kObstacle;
  const Outcome first = train_together(1);
  EXPECT_EQ(first.messages_in_host, first.messages);
  message_node_ = test::TwoMemoryNodes::kSecond;
  const test::TwoMemoryNodes machine;
  for (const Index zero : {1, 2, 3}) {
    SCOPED_TRACE(zero);
    const Outcome second = train_together(zero);
    EXPECT_EQ(second.values, first.values);
    EXPECT_EQ(second.messages > 0, environment->size() > 1);
    EXPECT_EQ(second.messages_in_host, 0);
  }
}

TEST_F(ShardingTest, RunsFurtherAheadThanTwoSteps) {
  const Outcome first = train_together(2);
  config_.train.run_ahead = 5;
  EXPECT_EQ(train_together(2).values, first.values);
}

}  // namespace
}  // namespace dos::ranks::sharding_test

int main(int argc, char** argv) {
  dos::platform::MpiEnvironment mpi(argc, argv);
  dos::ranks::sharding_test::environment = &mpi;
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
