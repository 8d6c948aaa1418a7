// SPDX-License-Identifier: Apache-2.0
// Checkpoints on two levels: what comes to the second is what is on the first, and storage that
// fails on either costs training nothing.
#include <gmock/gmock.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "base/checksum.hpp"
#include "base/sanitizer.hpp"
#include "checkpoint/copier.hpp"
#include "io/checkpoint_levels.hpp"
#include "io/safetensors.hpp"
#include "message_of.hpp"
#include "train/checkpoint_run.hpp"

namespace dos::train::checkpoint_levels_test {
namespace {

namespace fs = std::filesystem;
using storage::Kind;
using storage::Operation;
using test::Mishap;
using test::state_of;
using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

using Plan = test::FaultyBackend::Plan;

/// The file that an operation is on.
std::string path_of(const Operation& operation) {
  std::error_code ignored;
  return fs::read_symlink("/proc/self/fd/" + std::to_string(operation.descriptor), ignored);
}

class CheckpointLevels : public test::CheckpointRun {
 protected:
  CheckpointLevels() {
    config_.train.checkpoint_local = disk_.string();
    config_.train.checkpoint_copy_every = 2;
  }

  [[nodiscard]] fs::path local() const { return io::local_folder(disk_, out_); }
  static std::vector<Index> steps(const fs::path& out) { return io::CheckpointStore(out).steps(); }

  /// Both levels have the step, with the same bytes.
  void expect_same_files(Index step) {
    const std::string name = std::to_string(step);
    const fs::path near = io::CheckpointStore(local()).resolve(name);
    const fs::path far = io::CheckpointStore(out_).resolve(name);
    for (const char* file : {checkpoint::kModelFile, checkpoint::kOptimizerFile, io::kManifestName})
      EXPECT_EQ(read_text(near / file), read_text(far / file)) << file;
  }

  void expect_no_leftovers_on_both() {
    expect_no_leftovers(out_);
    expect_no_leftovers(local());
  }

  /// A run that has left a checkpoint of each step on the first level, the last on both.
  void leave_checkpoints() {
    config_.train.checkpoint_copy_every = 100;
    train(out_);
    ASSERT_THAT(steps(local()), ElementsAre(1, 2, 3, 4, 5, 6));
    ASSERT_THAT(steps(out_), ElementsAre(kSteps));
  }

  fs::path out_ = scratch_ / "run";
  fs::path disk_ = scratch_ / "disk";
};

TEST_F(CheckpointLevels, EachIsWhatTheStepMade) {
  EXPECT_EQ(train(out_), straight(kSteps));
  EXPECT_THAT(steps(local()), ElementsAre(1, 2, 3, 4, 5, 6));
  // A copy that takes longer than two steps leaves one out.
  const std::vector<Index> copied = steps(out_);
  EXPECT_THAT(copied, AllOf(Contains(kSteps), Each(testing::AnyOf(2, 4, 6))));
  for (const Index step : copied) expect_same_files(step);
  EXPECT_EQ(saved(out_, "last"), straight(kSteps));
  for (Index step = 1; step <= kSteps; ++step)
    EXPECT_EQ(saved(local(), std::to_string(step)), straight(step)) << step;
  expect_no_leftovers_on_both();
}

TEST_F(CheckpointLevels, TheBestComesToTheSecondToo) {
  config_.train.checkpoint_every = 0;
  config_.train.validate_every = 2;
  config_.train.keep = 1;
  train(out_);
  const auto best = [](const fs::path& out) {
    return CheckpointReader(out, "best").manifest().step;
  };
  EXPECT_EQ(best(out_), best(local()));
  expect_same_files(best(out_));
  EXPECT_EQ(saved(out_, "last"), straight(kSteps));
}

TEST_F(CheckpointLevels, ACopyThatIsGivenUpCostsNothingElse) {
  config_.train.steps = 4;
  config_.train.checkpoint_copy_every = 1;
  const State expected = straight(4);
  train_on(out_, {{}, [](Index, const Operation&) { return Mishap{}; }});
  const Index operations = operations_;
  // Each copy: both headers with what is behind them, and three flushes at least.
  ASSERT_GT(operations, 6);
  const Index dense = kIsSanitized ? 5 : 1;
  for (Index k = 0; k < operations; k += dense) {
    SCOPED_TRACE(k);
    fs::remove_all(out_);
    fs::remove_all(disk_);
    const int error = k % 2 == 0 ? ENOSPC : EIO;
    EXPECT_EQ(train_on(out_, {{},
                              [&](Index number, const Operation&) {
                                return Mishap{.error = number == k ? error : 0};
                              }}),
              expected);
    EXPECT_THAT(steps(local()), ElementsAre(1, 2, 3, 4));
    EXPECT_EQ(saved(out_, "last"), expected);
    EXPECT_EQ(saved(local(), "last"), expected);
    for (const Index step : steps(out_)) expect_same_files(step);
    expect_no_leftovers_on_both();
  }
}

TEST_F(CheckpointLevels, ASecondLevelThatFailsForGoodLeavesTheFirst) {
  const auto made =
      trainer(out_, {{}, [](Index, const Operation& operation) {
                       return Mishap{.error = operation.kind == Kind::kRead ? 0 : EIO};
                     }});
  made->start_fresh();
  const std::string message = test::message_of<Error>([&] { made->run(); });
  EXPECT_THAT(message, HasSubstr("step 6: the last checkpoint is not in " + out_.string()));
  EXPECT_THAT(message, HasSubstr("Input/output error"));
  EXPECT_THAT(message, HasSubstr((local() / "checkpoints" / "step-00000006").string()));
  EXPECT_EQ(state_of(*made), straight(kSteps));
  EXPECT_EQ(saved(local(), "last"), straight(kSteps));
  EXPECT_THAT(steps(out_), ElementsAre());
  expect_no_leftovers_on_both();
}

// What cannot be saved near is saved far, as often as it would be copied.
TEST_F(CheckpointLevels, AFirstLevelThatFailsForGoodIsPassedOver) {
  const auto made = trainer(out_, {[&](Index, const Operation& operation) {
                              const bool is_near = path_of(operation).starts_with(disk_.string());
                              return Mishap{.error = is_near ? ENOSPC : 0};
                            }});
  made->start_fresh();
  made->run();
  EXPECT_EQ(state_of(*made), straight(kSteps));
  EXPECT_THAT(steps(local()), ElementsAre());
  EXPECT_THAT(steps(out_), Contains(kSteps));
  for (const Index step : steps(out_))
    EXPECT_EQ(saved(out_, std::to_string(step)), straight(step)) << step;
}

TEST_F(CheckpointLevels, OnASlowSecondLevelTheLastComesAllTheSame) {
  config_.train.checkpoint_copy_every = 1;
  config_.train.keep = 1;
  const Plan slow = [](Index, const Operation&) {
    return Mishap{.delay = std::chrono::milliseconds(20)};
  };
  EXPECT_EQ(train_on(out_, {{}, slow}), straight(kSteps));
  EXPECT_EQ(saved(out_, "last"), straight(kSteps));
  EXPECT_THAT(steps(out_), ElementsAre(kSteps));
  EXPECT_THAT(steps(local()), ElementsAre(kSteps)) << "what waited for a copy is held no more";
}

TEST_F(CheckpointLevels, ARunThatWasKilledBeforeTheCopyBringsIt) {
  leave_checkpoints();
  fs::remove_all(out_ / "checkpoints");
  const auto made = trainer(out_);
  made->resume(CheckpointReader(local(), "last"));
  made->run();
  EXPECT_EQ(saved(out_, "last"), straight(kSteps));
  expect_same_files(kSteps);
}

TEST_F(CheckpointLevels, DamageOnTheFirstLevelDoesNotSpread) {
  leave_checkpoints();
  const fs::path file = local() / "checkpoints" / "step-00000003" / checkpoint::kOptimizerFile;
  const std::string whole = read_text(file);
  for (const std::size_t place : {std::size_t{20}, whole.size() / 2, whole.size() - 1}) {
    SCOPED_TRACE(place);
    std::string text = whole;
    text[place] = static_cast<char>(text[place] ^ 1);
    write_durably(file, text);
    io::CheckpointStore from(local());
    io::CheckpointStore to(scratch_ / "target");
    checkpoint::Copier copier(from, to, storage::make_backend(), 0);
    EXPECT_THAT(copier.finish(3), AllOf(HasSubstr(file.string()), HasSubstr("damaged")));
    EXPECT_THAT(to.steps(), ElementsAre());
  }
  write_durably(file, whole.substr(1));
  io::CheckpointStore from(local());
  io::CheckpointStore to(scratch_ / "target");
  checkpoint::Copier copier(from, to, storage::make_backend(), 0);
  EXPECT_THAT(copier.finish(3), HasSubstr("bytes, " + std::to_string(whole.size())));
}

// Manifests of formats 1 and 2 have no sums of pieces, and none could be made for them on the way.
TEST_F(CheckpointLevels, OneOfAnOlderReleaseIsNotCopied) {
  leave_checkpoints();
  const fs::path folder = local() / "checkpoints" / "step-00000003";
  nlohmann::json old = nlohmann::json::parse(read_text(folder / io::kManifestName));
  old["format"] = 2;
  for (auto& file : old["files"]) {
    file.erase("header");
    const io::SafetensorsFile opened(folder / file["name"].get<std::string>());
    for (auto& tensor : file["tensors"]) {
      tensor.erase("crc32c");
      tensor["xxh3"] = hex_text(checksum_of(opened.at(tensor["name"].get<std::string>()).bytes));
    }
  }
  old.erase("xxh3");
  old["xxh3"] = hex_text(io::manifest_checksum(old));
  write_durably(folder / io::kManifestName, old.dump());
  io::CheckpointStore from(local());
  io::CheckpointStore to(scratch_ / "target");
  checkpoint::Copier copier(from, to, storage::make_backend(), 0);
  EXPECT_THAT(copier.finish(3), AllOf(HasSubstr(folder.string() + ": an older release wrote it"),
                                      HasSubstr("is not copied")));
  EXPECT_THAT(to.steps(), ElementsAre());
}

TEST_F(CheckpointLevels, CopiesKeepToTheirRate) {
  leave_checkpoints();
  io::CheckpointStore from(local());
  io::CheckpointStore to(scratch_ / "target");
  // Each file of this model is one part, so the second waits for the first one's bytes.
  const auto first = static_cast<double>(
      fs::file_size(local() / "checkpoints" / "step-00000003" / checkpoint::kModelFile));
  constexpr double kSeconds = 0.3;
  const auto begun = std::chrono::steady_clock::now();
  checkpoint::Copier copier(from, to, storage::make_backend(), first / kSeconds);
  copier.request(3, /*is_best=*/false, from.hold(3));
  while (to.steps().empty()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
  EXPECT_GE(took.count(), kSeconds);
}

TEST_F(CheckpointLevels, AtTheEndOfARunNothingIsHeldBack) {
  leave_checkpoints();
  io::CheckpointStore from(local());
  io::CheckpointStore to(scratch_ / "target", 9);
  to.go_on_from(0);
  checkpoint::Copier copier(from, to, storage::make_backend(), /*bytes_per_second=*/1);
  copier.request(2, /*is_best=*/true, from.hold(2));
  copier.request(3, /*is_best=*/false, from.hold(3));
  copier.request(4, /*is_best=*/false, from.hold(4));
  EXPECT_EQ(copier.finish(6), "");
  EXPECT_EQ(to.last(), to.resolve("6"));
  EXPECT_EQ(to.best(), to.resolve("2"));
  EXPECT_THAT(to.steps(), ElementsAre(2, 6)) << "the others were not needed any more";
}

TEST_F(CheckpointLevels, ACopierThatIsNotNeededEndsAtOnce) {
  leave_checkpoints();
  io::CheckpointStore from(local());
  io::CheckpointStore to(scratch_ / "target");
  {
    checkpoint::Copier copier(from, to, storage::make_backend(), /*bytes_per_second=*/1);
    copier.request(2, /*is_best=*/false, from.hold(2));
  }
  EXPECT_THAT(to.steps(), ElementsAre());
}

}  // namespace
}  // namespace dos::train::checkpoint_levels_test
