// SPDX-License-Identifier: Apache-2.0
#include "io/checkpoint_levels.hpp"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/file.hpp"
#include "fails_with.hpp"
#include "io/checkpoint_manifest.hpp"
#include "scratch_directory.hpp"

namespace dos::io::checkpoint_levels_test {
namespace {

namespace fs = std::filesystem;
using test::fails_with;
using testing::ElementsAre;
using testing::IsEmpty;

void save(CheckpointStore& store, Index step, bool best = false) {
  auto staging = store.begin(step);
  write_durably(staging.path() / kManifestName, std::to_string(step));
  staging.commit(best);
  store.remove_discarded();
}

/// Sets the time at which the checkpoint was completed.
void date(const fs::path& checkpoint, double hours) {
  const std::chrono::duration<double, std::ratio<3600>> age(hours);
  fs::last_write_time(checkpoint / kManifestName,
                      fs::file_time_type(std::chrono::round<fs::file_time_type::duration>(age)));
}

class Levels : public testing::Test {
 protected:
  Levels() { fs::create_directories(out); }

  /// The run takes its first level and lets go of it, as one that ends.
  void claim(LocalStart start) {
    const RunLock lock = lock_local(disk, out);
    const std::string line = line_of(disk, out, start);
    announce_local(disk, out, line);
    take_local(disk, out, start, line);
    note_local(disk, out, line);
  }
  [[nodiscard]] fs::path folder() const { return local_folder(disk, out); }

  test::ScratchDirectory scratch;
  fs::path out = scratch / "out";
  fs::path disk = scratch / "disk";
};

TEST_F(Levels, OneThatIsNotSeenCanBeLeft) {
  leave_unseen_local(out);
  claim(LocalStart::kAnew);
  leave_unseen_local(out);
  EXPECT_NE(find_local(out), std::nullopt) << "is seen";
  fs::rename(disk, scratch / "elsewhere");
  leave_unseen_local(out);
  fs::rename(scratch / "elsewhere", disk);
  EXPECT_EQ(find_local(out), std::nullopt);
}

TEST_F(Levels, TheFolderFollowsFromThePathOfTheRun) {
  EXPECT_EQ(folder(), local_folder(disk, out / ""));
  EXPECT_EQ(folder(), local_folder(disk / "x" / "..", out / "." / "y" / ".."));
  EXPECT_NE(folder(), local_folder(disk, scratch / "other" / "out"));
  EXPECT_EQ(folder().parent_path(), disk);
}

TEST_F(Levels, IsFoundAfterItWasClaimed) {
  EXPECT_EQ(find_local(out), std::nullopt);
  claim(LocalStart::kAnew);
  const std::optional<LocalLevel> first = find_local(out);
  ASSERT_NE(first, std::nullopt);
  EXPECT_EQ(first->folder, folder());
  claim(LocalStart::kGoesOn);
  EXPECT_EQ(find_local(out), first);
}

// Nodes take their folders one after the other.
TEST_F(Levels, IsFoundWhileItGoesOverToAnotherLine) {
  claim(LocalStart::kGoesOn);
  const std::string before = find_local(out).value().line;
  const std::string next = line_of(disk, out, LocalStart::kGoesBack);
  EXPECT_NE(next, before);
  announce_local(disk, out, next);
  EXPECT_EQ(find_local(out).value().line, before);
  take_local(disk, out, LocalStart::kGoesBack, next);
  EXPECT_EQ(find_local(out).value().line, next);
  note_local(disk, out, next);
  EXPECT_EQ(find_local(out).value().line, next);
  EXPECT_EQ(line_of(disk, out, LocalStart::kGoesOn), next);
  EXPECT_NE(line_of(disk, out, LocalStart::kGoesOn, /*has_all=*/false), next);
}

// A start that was interrupted between two nodes is completed by the next one, on whichever.
TEST_F(Levels, ALineThatWasAnnouncedIsTaken) {
  claim(LocalStart::kGoesOn);
  const std::string before = find_local(out).value().line;
  const std::string next = line_of(disk, out, LocalStart::kGoesBack);
  announce_local(disk, out, next);
  for (const LocalStart start : {LocalStart::kGoesOn, LocalStart::kGoesBack})
    EXPECT_EQ(line_of(disk, out, start), next);
  take_local(disk, out, LocalStart::kGoesBack, next);
  announce_local(disk, out, line_of(disk, out, LocalStart::kGoesBack));
  EXPECT_EQ(find_local(out).value().line, next);
  // Another node's folder, which is on the line of before.
  fs::rename(disk, scratch / "one");
  fs::create_directories(folder());
  write_durably(folder() / "local.json",
                nlohmann::json{{"folder", folder().string()}, {"line", before}}.dump());
  EXPECT_EQ(find_local(out).value().line, before);
}

// The first rank may be on a node that has none.
TEST_F(Levels, ALineIsAnnouncedFromANodeWithoutTheFolder) {
  claim(LocalStart::kGoesOn);
  const std::string before = find_local(out).value().line;
  fs::rename(disk, scratch / "elsewhere");
  const std::string next = line_of(disk, out, LocalStart::kGoesOn);
  EXPECT_NE(next, before);
  announce_local(disk, out, next);
  fs::rename(scratch / "elsewhere", disk);
  EXPECT_EQ(find_local(out).value().line, before);
}

TEST_F(Levels, OneProcessHasIt) {
  const RunLock lock = lock_local(disk, out);
  EXPECT_THAT([&] { claim(LocalStart::kGoesOn); },
              fails_with({"train.checkpoint_local", folder().string(), "is in use by process"}));
}

TEST_F(Levels, AFolderThatCannotBeMadeNamesTheKey) {
  write_durably(scratch / "file", "");
  EXPECT_THAT([&] { lock_local(scratch / "file", out); },
              fails_with({"train.checkpoint_local = ", "file", "Not a directory"}));
}

TEST_F(Levels, ARunThatBeginsAnewTakesNothingOver) {
  claim(LocalStart::kAnew);
  CheckpointStore store(folder());
  save(store, 7);
  claim(LocalStart::kGoesOn);
  EXPECT_THAT(store.steps(), ElementsAre(7));
  // The folder of the run was removed.
  fs::remove_all(out);
  fs::create_directories(out);
  EXPECT_EQ(find_local(out), std::nullopt);
  claim(LocalStart::kGoesOn);
  EXPECT_THAT(store.steps(), IsEmpty());
  save(store, 3);
  claim(LocalStart::kAnew);
  EXPECT_THAT(store.steps(), IsEmpty());
}

TEST_F(Levels, ARunThatGoesBackLeavesBehindWhatOtherNodesHave) {
  claim(LocalStart::kAnew);
  CheckpointStore store(folder());
  save(store, 7);
  // Another node has the same line, and goes on with it elsewhere.
  const fs::path elsewhere = scratch / "elsewhere";
  fs::copy(folder(), elsewhere, fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  claim(LocalStart::kGoesBack);
  EXPECT_THAT(store.steps(), ElementsAre(7)) << "kept here";
  ASSERT_NE(find_local(out), std::nullopt);
  fs::remove_all(folder());
  fs::rename(elsewhere, folder());
  EXPECT_EQ(find_local(out), std::nullopt) << "its line has ended";
}

TEST_F(Levels, ACopyOfARunHasNone) {
  claim(LocalStart::kAnew);
  const fs::path copy = scratch / "copy";
  fs::copy(out, copy, fs::copy_options::recursive);
  EXPECT_EQ(find_local(copy), std::nullopt);
}

TEST_F(Levels, ADamagedRecordIsNone) {
  claim(LocalStart::kAnew);
  write_durably(out / "local.json", "{");
  EXPECT_EQ(find_local(out), std::nullopt);
  write_durably(out / "local.json", R"({"folder": 3})");
  EXPECT_EQ(find_local(out), std::nullopt);
}

TEST_F(Levels, TheNewestIsTakenWhereverItIs) {
  claim(LocalStart::kAnew);
  CheckpointStore shared(out, 5);
  CheckpointStore local(folder(), 5);
  const auto newest = [&] { return CheckpointLevels(out).resolve("last"); };
  EXPECT_EQ(CheckpointLevels(out).last(), std::nullopt);
  save(local, 2);
  EXPECT_EQ(newest(), folder() / "checkpoints" / "step-00000002");
  EXPECT_TRUE(CheckpointLevels(out).is_local_alone(newest()));
  save(shared, 2, /*best=*/true);
  EXPECT_EQ(newest(), folder() / "checkpoints" / "step-00000002");
  EXPECT_FALSE(CheckpointLevels(out).is_local_alone(newest()));
  save(shared, 4);
  EXPECT_EQ(newest(), out / "checkpoints" / "step-00000004");
  save(local, 6);
  const CheckpointLevels levels(out);
  EXPECT_EQ(levels.resolve("6"), newest());
  EXPECT_EQ(levels.resolve("4"), out / "checkpoints" / "step-00000004");
  EXPECT_EQ(levels.resolve("2"), folder() / "checkpoints" / "step-00000002");
  EXPECT_EQ(levels.resolve("best"), out / "checkpoints" / "step-00000002");
  EXPECT_TRUE(levels.owns(newest()));
  EXPECT_FALSE(levels.owns(scratch.path()));
  std::vector<std::pair<Index, bool>> found;
  for (const auto& each : levels.all()) found.emplace_back(each.step, each.is_local);
  EXPECT_THAT(found, ElementsAre(std::pair(6, true), std::pair(4, false), std::pair(2, true),
                                 std::pair(2, false)));
  EXPECT_EQ(CheckpointLevels(out, std::set<Index>()).resolve("last"),
            out / "checkpoints" / "step-00000004");
  fs::remove_all(disk);
  EXPECT_EQ(newest(), out / "checkpoints" / "step-00000004") << "the disk was wiped";
}

TEST_F(Levels, ALinkThatDanglesOnTheFirstLevelIsLeftOut) {
  claim(LocalStart::kAnew);
  CheckpointStore shared(out);
  CheckpointStore local(folder());
  save(shared, 2);
  save(local, 3);
  fs::remove_all(folder() / "checkpoints" / "step-00000003");
  EXPECT_EQ(CheckpointLevels(out).resolve("last"), out / "checkpoints" / "step-00000002");
}

TEST_F(Levels, ALinkThatDanglesInTheRunsFolderCostsNoStepThatTheFirstLevelHas) {
  claim(LocalStart::kAnew);
  CheckpointStore shared(out, 9);
  CheckpointStore local(folder(), 9);
  save(shared, 2);
  save(shared, 4);
  fs::remove_all(out / "checkpoints" / "step-00000004");
  const CheckpointLevels levels(out);
  EXPECT_THAT([&] { (void)levels.last(); },
              fails_with({"'step-00000004', which is no folder", "2"}));
  save(local, 3);
  EXPECT_THAT([&] { (void)levels.last(); },
              fails_with({"'step-00000004', which is no folder", "2"}))
      << "what is lost is newer";
  for (const Index step : {4, 5}) {
    save(local, step);
    const std::optional<CheckpointLevels::Found> last = levels.last();
    ASSERT_NE(last, std::nullopt);
    EXPECT_EQ(last->step, step);
    EXPECT_TRUE(last->is_local);
    EXPECT_EQ(levels.resolve("last"), last->folder);
    EXPECT_TRUE(levels.is_local_alone(last->folder)) << "of step " << step;
  }
}

// Of the store, what two levels need of it.

TEST_F(Levels, WhatIsHeldStays) {
  CheckpointStore store(out);
  {
    const CheckpointStore::Hold hold = store.hold(1);
    const CheckpointStore::Hold twice = store.hold(1);
    for (const Index step : {1, 2, 3}) save(store, step);
    EXPECT_THAT(store.steps(), ElementsAre(1, 3));
  }
  save(store, 4);
  EXPECT_THAT(store.steps(), ElementsAre(4));
}

TEST_F(Levels, LinksDoNotFallBackToEarlierSteps) {
  CheckpointStore store(out, 9);
  store.go_on_from(0);
  save(store, 5, /*best=*/true);
  save(store, 3, /*best=*/true);
  EXPECT_EQ(store.last(), out / "checkpoints" / "step-00000005");
  EXPECT_EQ(store.best(), out / "checkpoints" / "step-00000005");
  EXPECT_THAT(store.steps(), ElementsAre(3, 5));
}

TEST_F(Levels, ARunThatGoesBackTakesLastAlong) {
  {
    CheckpointStore store(out, 9);
    for (const Index step : {2, 4, 6}) save(store, step);
  }
  CheckpointStore store(out, 9);
  store.go_on_from(6);
  EXPECT_EQ(store.last(), out / "checkpoints" / "step-00000006");
  store.go_on_from(5);
  EXPECT_EQ(store.last(), out / "checkpoints" / "step-00000004");
  EXPECT_THAT(store.steps(), ElementsAre(2, 4));
  EXPECT_EQ(store.resolve("6"), out / "checkpoints" / "step-00000006.after-5") << "is kept";
  save(store, 3);
  EXPECT_EQ(store.last(), out / "checkpoints" / "step-00000004");
  store.go_on_from(1);
  EXPECT_EQ(store.last(), std::nullopt);
}

TEST_F(Levels, TheRuleIsThatOfCommitsAndOfPruning) {
  {
    CheckpointStore store(out, 99);
    for (const Index step : {1, 2, 3, 4, 5, 6, 7}) save(store, step, step == 2);
    for (const Index step : store.steps())
      date(store.resolve(std::to_string(step)), 0.4 * static_cast<double>(step));
  }
  CheckpointStore rule(out, {2, 1});
  // 0.4 and 1.6 are an hour apart, 2.8 is one of the newest two.
  EXPECT_THAT(rule.surplus(), ElementsAre(3, 5));
  EXPECT_THAT(CheckpointStore(out, 2).surplus(), ElementsAre(1, 3, 4, 5));
  EXPECT_THAT(rule.prune(), ElementsAre(3, 5));
  EXPECT_THAT(rule.steps(), ElementsAre(1, 2, 4, 6, 7));
  EXPECT_THAT(rule.prune(), IsEmpty());
  save(rule, 8);
  EXPECT_THAT(rule.steps(), ElementsAre(1, 2, 4, 7, 8));
}

TEST_F(Levels, PruningLeavesWhatComesAfterLast) {
  CheckpointStore store(out, 99);
  for (const Index step : {1, 2, 3, 4}) save(store, step);
  store.go_on_from(2);
  EXPECT_THAT(CheckpointStore(out, 1).prune(), ElementsAre(1));
  EXPECT_THAT(store.steps(), ElementsAre(2));
  EXPECT_EQ(std::ssize(store.aside()), 2);
}

}  // namespace
}  // namespace dos::io::checkpoint_levels_test
