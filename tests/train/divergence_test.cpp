// SPDX-License-Identifier: Apache-2.0
// Started by mpiexec on two or more ranks: every rank runs every test.
#include <gmock/gmock.h>

#include <cerrno>
#include <filesystem>
#include <limits>

#include "launch/handshake.hpp"
#include "models/family.hpp"
#include "ranks/agreed_error.hpp"
#include "ranks/handle_transfer.hpp"
#include "rt/tasks.hpp"
#include "shape/cutter.hpp"
#include "storage/faulty_backend.hpp"
#include "train/diagnosis.hpp"
#include "train/tiny_trainer.hpp"

namespace dos::train::divergence_test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
platform::MpiEnvironment* environment = nullptr;

Index last_rank() {
  return environment->size() - 1;
}

// The last rank spoils what it sends to rank 0, which finds it first in program order.
TEST(Diagnosis, OfSeveralRanksNamesTheOneWhereItBegan) {
  ranks::Exchange exchange(*environment, {.numbers = 1});
  rt::Session session({.scheduler = "", .cpu_workers = 1});
  const tensor::ParameterSet parameters(
      session, shape::cut_into_subgroups(
                   {{.name = "w", .rows = 1, .columns = 4, .init = {}, .depth = 0}}, 4, {}));
  const rt::Handle made(session, {.name = "made", .count = 1});
  const rt::Handle sum(session, {.name = "sum", .count = 1});
  rt::Submitter submitter(session);
  ranks::HandleTransfers transfers(exchange);
  const bool spoils = environment->rank() == last_rank();
  const test::Body make = [&](const rt::TaskView& task) {
    task.pointer<float>(0)[0] = spoils ? kNan : 1.0F;
  };
  const test::Body add = [](const rt::TaskView& task) {
    task.pointer<float>(1)[0] += task.pointer<float>(0)[0];
  };
  const auto replay = [&] {
    if (environment->rank() == 0) {
      for (Index rank = 1; rank <= last_rank(); ++rank) {
        transfers.receive(made, 1, rank, {ranks::Kind::kGradient, 0, 0});
        test::submit_body(submitter, add, {&made, &sum}, {.label = "add"});
      }
    } else {
      test::submit_body(submitter, make, {&made}, {.label = "make"});
      transfers.send(made, {0}, {ranks::Kind::kGradient, 0, 0});
    }
  };
  const std::string found =
      find_first_bad_tensor(submitter, parameters, replay, &exchange).value_or("nothing");
  EXPECT_THAT(found, StartsWith("made, written by "));
  EXPECT_THAT(found, HasSubstr(fmt::format("(make), found by rank {}", last_rank())));
  EXPECT_EQ(find_first_bad_tensor(
                submitter, parameters, [] {}, &exchange),
            std::nullopt);
  transfers.wait();
  exchange.close();
}

class DivergenceTest : public testing::Test {
 protected:
  /// What run() of a training says, after `spoil` was called with the fresh trainer.
  std::string error_of(const config::TrainConfig& config, Index zero,
                       const std::function<void(Trainer&, const ranks::RankShare&)>& spoil) {
    const shape::Layout layout =
        shape::cut_into_subgroups(shape::find_family("gpt2").parameters(config.resolve_model(0)),
                                  config.sched.subgroup_params, config.decay_groups());
    const std::vector<double> equal(static_cast<std::size_t>(environment->size()), 1);
    const ranks::RankShare share = ranks::share_of(layout, environment->rank(), equal, zero);
    ranks::Exchange exchange(*environment, {.numbers = std::ssize(share.owners)});
    std::string message;
    {
      rt::Session session({.scheduler = "", .cpu_workers = 1});
      const auto trainer =
          test::make_trainer(session, config, scratch_ / fmt::format("run{}", zero), share,
                             &exchange, rt::kHostNode, &storage::make_backend, disk_storage_);
      trainer->start_fresh();
      spoil(*trainer, share);
      message = test::message_of<ranks::AgreedError>([&] { trainer->run(); });
    }
    // Nobody waits for anything: all ranks leave together.
    exchange.close();
    return message;
  }

  test::ScratchDirectory scratch_;
  config::TrainConfig config_ = test::tiny_config(test::write_tiny_dataset(scratch_));
  test::StorageMaker disk_storage_ = &storage::make_backend;
};

TEST_F(DivergenceTest, AParameterIsNamedWithItsOwner) {
  for (const Index zero : {1, 2, 3}) {
    SCOPED_TRACE(zero);
    const auto spoil = [](Trainer& trainer, const ranks::RankShare& share) {
      const auto found = std::ranges::find(share.owners, share.rank);
      if (share.rank != last_rank()) return;
      const Index mine = found - share.owners.begin();
      const rt::HostAccess access(trainer.parameters().values()[mine], rt::Mode::kReadWrite);
      access.as<float>().back() = kNan;
    };
    const std::string message = error_of(config_, zero, spoil);
    EXPECT_THAT(message, HasSubstr("is not finite; first bad tensor: parameter "));
    EXPECT_THAT(message, HasSubstr(fmt::format(", found by rank {}; training", last_rank())));
  }
}

// The passes are computed again on all ranks, with all their messages.
TEST_F(DivergenceTest, ATensorIsNamedWithTheRankThatMadeIt) {
  config_.optim.lr = 1e36;
  config_.optim.warmup = 0;
  config_.train.accumulate = 2;
  for (const Index zero : {1, 2, 3}) {
    SCOPED_TRACE(zero);
    const std::string message = error_of(config_, zero, [](Trainer&, const ranks::RankShare&) {});
    EXPECT_THAT(message, HasSubstr("is not finite; first bad tensor: "));
    EXPECT_THAT(message, HasSubstr(", written by dos."));
    EXPECT_THAT(message, HasSubstr(", found by rank 0; training"));
  }
}

// Where a checkpoint waits for the step that diverges, another's updates wait for slots.
TEST_F(DivergenceTest, EndsBesideStatesOnDisks) {
  std::filesystem::create_directory(scratch_ / "disk");
  config_.sched.disks = (scratch_ / "disk").string();
  config_.sched.subgroup_params = 500;
  config_.optim.lr = 1e36;
  config_.optim.warmup = 0;
  config_.train.checkpoint_every = 1;
  for (const char* precision : {"fp32", "bf16"})
    for (const Index ahead : {2, 3, 6}) {
      SCOPED_TRACE(fmt::format("{} {}", precision, ahead));
      config_.train.precision = precision;
      config_.train.run_ahead = ahead;
      const std::string message = error_of(config_, 1, [](Trainer&, const ranks::RankShare&) {});
      EXPECT_THAT(message, HasSubstr("is not finite; "));
    }
}

TEST_F(DivergenceTest, StatesThatOneRankLosesEndTheRunOfAll) {
  std::filesystem::create_directory(scratch_ / "disk");
  config_.sched.disks = (scratch_ / "disk").string();
  config_.sched.subgroup_params = 500;
  config_.train.checkpoint_every = 1;
  for (const char* precision : {"fp32", "bf16"})
    for (const Index bad : {0, 7, 20, 33}) {
      SCOPED_TRACE(fmt::format("{} {}", precision, bad));
      config_.train.precision = precision;
      disk_storage_ = [bad] {
        return std::make_unique<test::FaultyBackend>(
            storage::make_backend(), [bad](Index number, const storage::Operation&) {
              const bool fails = environment->rank() == last_rank() && number >= bad;
              return test::Mishap{.error = fails ? EIO : 0};
            });
      };
      const std::string message = error_of(config_, precision == std::string("bf16") ? 3 : 1,
                                           [](Trainer&, const ranks::RankShare&) {});
      EXPECT_THAT(message, HasSubstr("states of "));
      EXPECT_THAT(message, HasSubstr("are lost: "));
      EXPECT_THAT(message, HasSubstr("training stopped, "));
    }
}

}  // namespace
}  // namespace dos::train::divergence_test

int main(int argc, char** argv) {
  dos::platform::MpiEnvironment mpi(argc, argv);
  dos::train::divergence_test::environment = &mpi;
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
