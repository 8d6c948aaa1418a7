// SPDX-License-Identifier: Apache-2.0
// Training whose optimizer states live on disks: its bits are those of a run in memory, whatever
// goes to disks, and states that are lost end it with the checkpoints that it has.
#include <gmock/gmock.h>

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <random>

#include "checkpoint/contents.hpp"
#include "checkpoint/part_reader.hpp"
#include "fails_with.hpp"
#include "fit/estimate.hpp"
#include "message_of.hpp"
#include "models/demand.hpp"
#include "sanitized.hpp"
#include "storage/blocks.hpp"
#include "storage/direct_file.hpp"
#include "train/disk_run.hpp"

namespace dos::train::states_on_disks_test {
namespace {

using storage::Kind;
using storage::Operation;
using test::Mishap;
using test::state_of;
using testing::HasSubstr;

using Plan = test::FaultyBackend::Plan;

class StatesOnDisks : public test::DiskRun {};

TEST_F(StatesOnDisks, AreWhatTheyAreInMemory) {
  int combination = 0;
  for (const double clip : {1.0, 0.0})
    for (const char* precision : {"fp32", "bf16"}) {
      config_.optim.clip = clip;
      config_.train.precision = precision;
      const std::vector<State> expected = straight_steps();
      for (const Index run_ahead : {1, 3})
        for (const double host_memory : {0.0, 25e-6, 60e-6}) {
          if (!test::tries(combination++, 5)) continue;
          const std::string name = fmt::format("{}{}{}{}", clip, precision, run_ahead, host_memory);
          SCOPED_TRACE(name);
          config_.train.run_ahead = run_ahead;
          host_memory_ = host_memory;
          train_on_disks(scratch_ / name);
          for (Index step = 1; step <= kSteps; ++step)
            EXPECT_TRUE(saved(scratch_ / name, std::to_string(step)) ==
                        expected[static_cast<std::size_t>(step - 1)])
                << step;
        }
    }
}

// Transfers of less than storage::kLeastDirect never go past the page cache.
TEST_F(StatesOnDisks, ThatGoPastThePageCacheAreWhatTheyAreInMemory) {
  config_.model.width = 64;
  config_.sched.subgroup_params = 9'000;
  ASSERT_GT(2 * 4 * config_.sched.subgroup_params, storage::kLeastDirect);
  const bool can_be_direct =
      storage::DirectFile::create(scratch_ / "file", storage::kLeastDirect).is_direct();
  for (const char* precision : {"fp32", "bf16"}) {
    SCOPED_TRACE(precision);
    config_.train.precision = precision;
    std::atomic<Index> direct = 0;
    const auto count = [&](Index, const Operation& operation) {
      if ((::fcntl(operation.descriptor, F_GETFL) & O_DIRECT) != 0) ++direct;
      return Mishap{};
    };
    const auto out = scratch_ / precision;
    train_on_disks(out, count);
    EXPECT_EQ(direct > 0, can_be_direct);
    for (const Index step : {Index{1}, Index{4}, kSteps})
      EXPECT_TRUE(saved(out, std::to_string(step)) == straight(step)) << step;
    // The files of a checkpoint, where they lie.
    config_.train.stop_after = 4;
    train_on_disks(scratch_ / "first");
    config_.train.stop_after = 0;
    const auto goes_on = on_disks(scratch_ / "first", count);
    goes_on->resume(CheckpointReader(scratch_ / "first", "last"));
    goes_on->run();
    EXPECT_TRUE(saved(scratch_ / "first", "last") == straight(kSteps));
    std::filesystem::remove_all(scratch_ / "first");
  }
}

// Fewer are written at once than there are slots: the others wait until a file is free.
TEST_F(StatesOnDisks, AreTheSameWhereDisksAreSlow) {
  config_.train.precision = "bf16";
  train_on_disks(scratch_ / "run", [](Index, const Operation& operation) {
    return Mishap{.delay = std::chrono::milliseconds(operation.kind == Kind::kWrite ? 3 : 0)};
  });
  EXPECT_TRUE(saved(scratch_ / "run", "last") == straight(kSteps));
}

TEST_F(StatesOnDisks, AreSavedAfterValidationsAndAtTheEnd) {
  config_.train.checkpoint_every = 0;
  config_.train.validate_every = 2;
  train_on_disks(scratch_ / "run");
  EXPECT_TRUE(saved(scratch_ / "run", "last") == straight(kSteps));
}

// Cut into other subgroups.
TEST_F(StatesOnDisks, GoOnFromCheckpointsOfRunsInMemory) {
  config_.train.stop_after = 3;
  train(scratch_ / "first");
  config_.train.stop_after = 0;
  config_.sched.subgroup_params = 700;
  const auto go_on = [&](const std::unique_ptr<Trainer>& trainer, const char* out) {
    trainer->resume(CheckpointReader(scratch_ / "first", "last"));
    trainer->run();
    return saved(scratch_ / out, "last");
  };
  EXPECT_TRUE(go_on(on_disks(scratch_ / "disks"), "disks") ==
              go_on(trainer(scratch_ / "memory"), "memory"));
}

TEST_F(StatesOnDisks, WithTheParametersGoOnFromCheckpoints) {
  config_.train.precision = "bf16";
  config_.train.stop_after = 3;
  train_on_disks(scratch_ / "disks");
  config_.train.stop_after = 0;
  const auto resumed = on_disks(scratch_ / "disks");
  resumed->resume(CheckpointReader(scratch_ / "disks", "last"));
  resumed->run();
  EXPECT_TRUE(saved(scratch_ / "disks", "last") == straight(kSteps));
}

TEST_F(StatesOnDisks, ResumedAreSavedAgainAsTheyWere) {
  config_.train.stop_after = 3;
  train(scratch_ / "memory");
  const auto resumed = on_disks(scratch_ / "disks");
  resumed->resume(CheckpointReader(scratch_ / "memory", "last"));
  resumed->run();
  EXPECT_TRUE(saved(scratch_ / "disks", "last") == straight(3));
}

TEST_F(StatesOnDisks, UseAllDisksAndSayHowMuch) {
  disks_ += "," + (scratch_ / "disk1").string();
  config_.train.checkpoint_every = 0;
  std::map<std::string, Index> by_disk;
  train_on_disks(scratch_ / "run", [&](Index, const Operation& operation) {
    const auto file =
        std::filesystem::read_symlink(fmt::format("/proc/self/fd/{}", operation.descriptor));
    if (operation.kind == Kind::kWrite)
      by_disk[file.parent_path().filename().string()] += operation.bytes;
    return Mishap{};
  });
  EXPECT_TRUE(saved(scratch_ / "run", "last") == straight(kSteps));
  EXPECT_THAT(by_disk, testing::UnorderedElementsAre(testing::Pair("disk0", testing::Gt(0)),
                                                     testing::Pair("disk1", testing::Gt(0))));
  const std::vector<double> written = of_metrics(scratch_ / "run", "disk_written_bytes");
  ASSERT_EQ(std::ssize(written), kSteps);
  double sum = 0;
  for (const double each : written) sum += each;
  // Whole pages of two states each; the last steps' may still be under way.
  const auto least =
      static_cast<double>(8 * test::tiny_run(config_).layout.trained_count() * (kSteps - 1));
  EXPECT_GE(sum, least);
}

TEST_F(StatesOnDisks, TakeTheMemoryThatIsForeseen) {
  for (const char* precision : {"fp32", "bf16"})
    for (const double host_memory : {0.0, 40e-6}) {
      SCOPED_TRACE(fmt::format("{} {}", precision, host_memory));
      config_.train.precision = precision;
      host_memory_ = host_memory;
      const auto made = on_disks(scratch_ / "run");
      config::TrainConfig config = config_;
      config.sched.disks = disks_;
      config.sched.host_memory = host_memory;
      const train::Run run = test::tiny_run(config);
      const offload::HomePlan homes = plan_homes(run, session_.workers());
      EXPECT_FALSE(homes.on_disks().empty());
      const rt::MemoryBytes in_memory =
          fit::estimate_training(run.model, config.run_shape(models::lane_workers(session_)),
                                 run.layout, config.parameter_types(), config.optimizer(),
                                 {.all = session_.workers()}, config.train.run_ahead);
      const rt::MemoryBytes saved = offload::saved_memory(run.layout, homes);
      for (const MemoryCategory category : {MemoryCategory::kStates, MemoryCategory::kParameters})
        EXPECT_EQ(session_.memory().now()[category], in_memory[category] - saved[category])
            << name_of(category);
    }
}

TEST_F(StatesOnDisks, LeaveNothingInTheFolder) {
  const auto made = on_disks(scratch_ / "run");
  EXPECT_TRUE(std::filesystem::is_empty(scratch_ / "disk0")) << "the file has no name";
}

double sum_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

// Each is what it was, whatever later steps do, and however states are cut when it is read.
TEST_F(StatesOnDisks, AreTakenByCheckpointsAsTheyAre) {
  int combination = 0;
  for (const char* precision : {"fp32", "bf16"})
    for (const double host_memory : {0.0, 90e-6}) {
      if (!test::tries(combination++, 3)) continue;
      const std::string name = fmt::format("{}{}", precision, host_memory);
      SCOPED_TRACE(name);
      config_.train.precision = precision;
      config_.sched.subgroup_params = 500;
      host_memory_ = host_memory;
      const auto out = scratch_ / name;
      train_on_disks(out);
      if (sum_of(of_metrics(out, "mb_checkpoint_linked")) == 0)
        GTEST_SKIP() << "no files without names here";
      const auto folder = out / "checkpoints" / "last";
      // Files hold what is not on disks.
      const bool some_stay = host_memory > 0;
      EXPECT_EQ(std::filesystem::exists(folder / checkpoint::kOptimizerFile), some_stay);
      EXPECT_EQ(std::filesystem::exists(folder / checkpoint::kModelFile),
                some_stay || std::string(precision) == "fp32");
      const std::array<Index, 3> steps{1, 4, kSteps};
      std::vector<State> expected;
      for (const Index step : steps) expected.push_back(straight(step));
      config_.sched.subgroup_params = 900;
      for (std::size_t i = 0; i < steps.size(); ++i)
        EXPECT_TRUE(saved(out, std::to_string(steps[i])) == expected[i]) << steps[i];
      storage::Engine engine;
      for (Index step = 1; step <= kSteps; ++step) {
        const CheckpointReader reader(out, std::to_string(step));
        checkpoint::verify(engine, reader.folder(), reader.manifest());
      }
    }
}

// Nothing is written for what a checkpoint's files have, and these stay what they were.
TEST_F(StatesOnDisks, ResumeFromFilesInPlace) {
  int combination = 0;
  for (const char* precision : {"fp32", "bf16"})
    for (const double host_memory : {0.0, 90e-6}) {
      if (!test::tries(combination++, 3)) continue;
      SCOPED_TRACE(fmt::format("{} {}", precision, host_memory));
      const auto out = scratch_ / fmt::format("{}{}", precision, host_memory);
      config_.train.precision = precision;
      config_.train.stop_after = 3;
      host_memory_ = host_memory;
      train_on_disks(out);
      if (sum_of(of_metrics(out, "mb_checkpoint_linked")) == 0)
        GTEST_SKIP() << "no files without names here";
      const State third = saved(out, "3");
      Index writes = 0;
      const auto resumed = on_disks(out, [&](Index, const Operation& operation) {
        if (operation.kind == Kind::kWrite) ++writes;
        return Mishap{};
      });
      resumed->resume(CheckpointReader(out, "last"));
      EXPECT_EQ(writes, 0);
      config_.train.stop_after = 0;
      const auto goes_on = on_disks(out);
      goes_on->resume(CheckpointReader(out, "last"));
      goes_on->run();
      EXPECT_TRUE(saved(out, "last") == straight(kSteps));
      EXPECT_TRUE(saved(out, "3") == third);
    }
}

TEST_F(StatesOnDisks, OfAnotherFileSystemAreWritten) {
  if (::access("/dev/shm", W_OK) != 0) GTEST_SKIP() << "no /dev/shm";
  const std::filesystem::path disk = fmt::format("/dev/shm/dos-states-{}", ::getpid());
  std::filesystem::create_directory(disk);
  disks_ = disk.string();
  config_.train.precision = "bf16";
  train_on_disks(scratch_ / "run");
  EXPECT_EQ(sum_of(of_metrics(scratch_ / "run", "mb_checkpoint_linked")), 0);
  EXPECT_TRUE(saved(scratch_ / "run", "last") == straight(kSteps));
  EXPECT_TRUE(std::filesystem::remove(disk)) << "nothing is left";
}

TEST_F(StatesOnDisks, OfAnotherFileSystemAreCopiedWhereSomeAreTaken) {
  if (::access("/dev/shm", W_OK) != 0) GTEST_SKIP() << "no /dev/shm";
  const std::filesystem::path disk = fmt::format("/dev/shm/dos-states-{}", ::getpid());
  std::filesystem::create_directory(disk);
  disks_ += "," + disk.string();
  config_.train.precision = "bf16";
  config_.train.stop_after = 3;
  const auto out = scratch_ / "run";
  train_on_disks(out);
  if (sum_of(of_metrics(out, "mb_checkpoint_linked")) == 0)
    GTEST_SKIP() << "no files without names here";
  EXPECT_GT(sum_of(of_metrics(out, "mb_checkpoint")), 0);
  config_.train.stop_after = 0;
  const auto goes_on = on_disks(out);
  goes_on->resume(CheckpointReader(out, "last"));
  goes_on->run();
  EXPECT_TRUE(saved(out, "last") == straight(kSteps));
  EXPECT_TRUE(std::filesystem::remove(disk)) << "nothing is left";
}

TEST_F(StatesOnDisks, WhichAreLostEndTheRunWithItsCheckpoints) {
  Index operations = 0;
  train_on_disks(scratch_ / "all", [&](Index number, const Operation&) {
    operations = number + 1;
    return Mishap{};
  });
  ASSERT_GT(operations, 100);
  const std::vector<State> expected = straight_steps();
  std::mt19937 random(7);
  const int rounds = kIsSanitized ? 5 : 20;
  for (int round = 0; round < rounds; ++round) {
    const Index bad = std::uniform_int_distribution<Index>(0, operations - 1)(random);
    SCOPED_TRACE(bad);
    const auto out = scratch_ / fmt::format("run{}", round);
    const std::string message = test::message_of<Error>([&] {
      train_on_disks(out, [&](Index number, const Operation&) {
        return Mishap{.error = number != bad ? 0 : round % 2 == 0 ? EIO : ENOSPC};
      });
    });
    // States that are not read any more are not missed.
    if (message.empty()) {
      EXPECT_TRUE(saved(out, "last") == expected.back());
      continue;
    }
    EXPECT_THAT(message, HasSubstr("states of "));
    EXPECT_THAT(message, HasSubstr("are lost"));
    EXPECT_THAT(message, HasSubstr("disk0"));
    EXPECT_THAT(message, HasSubstr(round % 2 == 0 ? "Input/output" : "No space left"));
    Index last = 0;
    for (Index step = 1; step <= kSteps; ++step)
      if (std::filesystem::exists(out / "checkpoints" / fmt::format("step-{:08}", step)))
        last = step;
    const std::string newest = last == 0 ? std::string("no checkpoint was written yet")
                                         : fmt::format("the checkpoint of step {} is intact", last);
    EXPECT_THAT(message, HasSubstr("training stopped, " + newest));
    for (Index step = 1; step <= last; ++step)
      EXPECT_TRUE(saved(out, std::to_string(step)) == expected[static_cast<std::size_t>(step - 1)])
          << step;
    expect_no_leftovers(out);
  }
}

TEST_F(StatesOnDisks, WhichAreNotWhatWasWrittenAreFound) {
  config_.train.checkpoint_every = 0;
  Index writes = 0;
  const auto damage = [&](Index, const Operation& operation) {
    // After its sum was made.
    if (operation.kind == Kind::kWrite && ++writes == 30) operation.memory[5] ^= std::byte{16};
    return Mishap{};
  };
  EXPECT_THAT([&] { train_on_disks(scratch_ / "run", damage); },
              test::fails_with({"states of ", "are lost", "CRC-32C", "disk0"}));
}

TEST_F(StatesOnDisks, NeedAFolder) {
  disks_ = (scratch_ / "nowhere").string();
  EXPECT_THAT([&] { static_cast<void>(on_disks(scratch_ / "run")); },
              test::fails_with({"sched.disks", "nowhere", "is no folder"}));
  disks_ = (scratch_ / "disk0:1MB").string();
  config_.model.width = 256;
  config_.sched.subgroup_params = 100'000;
  EXPECT_THAT([&] { static_cast<void>(on_disks(scratch_ / "run")); },
              test::fails_with({"sched.disks", "there is room for"}));
}

}  // namespace
}  // namespace dos::train::states_on_disks_test
