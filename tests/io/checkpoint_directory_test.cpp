// SPDX-License-Identifier: Apache-2.0
#include "io/checkpoint_directory.hpp"

#include <gmock/gmock.h>

#include <memory>

#include "base/error.hpp"
#include "base/file.hpp"
#include "io/checkpoint_content.hpp"
#include "io/killed_at_call.hpp"
#include "scratch_directory.hpp"

namespace dos::io::checkpoint_directory_test {
namespace {

namespace fs = std::filesystem;
using test::content;
using test::fill;
using test::names_in;
using test::save;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;
using testing::UnorderedElementsAre;

class Store : public testing::Test {
 protected:
  [[nodiscard]] fs::path folder() const { return scratch / "checkpoints"; }

  test::ScratchDirectory scratch;
};

TEST_F(Store, KnowsTheStepThatALinkToNothingNames) {
  fs::create_directory_symlink("step-00000012", scratch / "link");
  EXPECT_EQ(CheckpointStore::step_of_folder(scratch / "link"), 12);
  EXPECT_EQ(CheckpointStore::step_of_folder(scratch / "step-00000013"), 13);
  EXPECT_EQ(CheckpointStore::step_of_folder(scratch / "mine"), std::nullopt);
}

TEST_F(Store, TouchesNothingBeforeTheFirstWrite) {
  const CheckpointStore store(scratch / "new");
  EXPECT_EQ(store.last(), std::nullopt);
  EXPECT_EQ(store.best(), std::nullopt);
  EXPECT_THAT(store.steps(), IsEmpty());
  EXPECT_FALSE(fs::exists(scratch / "new"));
}

TEST_F(Store, CommitMakesTheFolderAndItsLinks) {
  CheckpointStore store(scratch.path());
  auto staging = store.begin(10);
  EXPECT_EQ(staging.path(), store.staging_path(10));
  fill(staging.path(), "ten");
  EXPECT_EQ(store.last(), std::nullopt);
  EXPECT_THAT(store.steps(), IsEmpty());
  EXPECT_EQ(staging.commit(true), folder() / "step-00000010");
  EXPECT_EQ(store.last(), folder() / "step-00000010");
  EXPECT_EQ(store.best(), folder() / "step-00000010");
  EXPECT_EQ(content(*store.last()), "ten");
  EXPECT_EQ(fs::read_symlink(folder() / "last"), "step-00000010");
  EXPECT_THAT(names_in(folder()), UnorderedElementsAre("step-00000010", "last", "best"));
}

TEST_F(Store, KeepsLastBestAndTheNewest) {
  CheckpointStore store(scratch.path(), 2);
  for (const Index step : {0, 1, 2, 3, 4}) save(store, step, "text", step == 1);
  EXPECT_THAT(store.steps(), ElementsAre(1, 3, 4));
  EXPECT_EQ(store.best(), folder() / "step-00000001");
  CheckpointStore strict(scratch.path(), 1);
  save(strict, 5, "text");
  EXPECT_THAT(strict.steps(), ElementsAre(1, 5));
}

TEST_F(Store, LeavesLaterStepsUntilTheRunPassesThem) {
  CheckpointStore store(scratch.path(), 2);
  save(store, 10, "old");
  save(store, 20, "old");
  save(store, 5, "new");
  EXPECT_EQ(store.last(), folder() / "step-00000005");
  EXPECT_THAT(store.steps(), ElementsAre(5, 10, 20));
  save(store, 11, "new");
  EXPECT_THAT(store.steps(), ElementsAre(10, 11, 20));
}

TEST_F(Store, NamesStepsOfMoreThanEightDigits) {
  CheckpointStore store(scratch.path());
  save(store, 123456789012, "text");
  EXPECT_THAT(store.steps(), ElementsAre(123456789012));
  EXPECT_EQ(store.resolve("123456789012"), folder() / "step-123456789012");
}

TEST_F(Store, LeavesForeignFilesAlone) {
  fs::create_directories(folder() / "step-7");
  fs::create_directories(folder() / "mine.tmp");
  CheckpointStore store(scratch.path());
  save(store, 1, "text");
  EXPECT_THAT(names_in(folder()),
              UnorderedElementsAre("step-7", "mine.tmp", "step-00000001", "last"));
  EXPECT_THAT(store.steps(), ElementsAre(1));
}

TEST_F(Store, StagingWithoutCommitLeavesNothing) {
  CheckpointStore store(scratch.path());
  save(store, 1, "one");
  {
    auto staging = store.begin(2);
    fill(staging.path(), "half");
    const auto moved = std::move(staging);
    EXPECT_TRUE(fs::exists(store.staging_path(2)));
  }
  EXPECT_THAT(names_in(folder()), UnorderedElementsAre("step-00000001", "last"));
  EXPECT_EQ(content(*store.last()), "one");
}

TEST_F(Store, RemovesWhatACrashLeft) {
  CheckpointStore store(scratch.path(), 5);
  save(store, 1, "one");
  fill(folder() / "step-00000002.tmp", "half");
  fill(folder() / "step-00000003.tmp", "half");
  fill(folder() / "step-00000004.discarded.tmp", "half");
  fs::create_symlink("step-00000002.tmp", folder() / "last.tmp");
  EXPECT_THAT(store.steps(), ElementsAre(1));
  auto staging = store.begin(2);
  EXPECT_TRUE(fs::is_empty(staging.path()));
  fill(staging.path(), "two");
  staging.commit(false);
  EXPECT_THAT(names_in(folder()), UnorderedElementsAre("step-00000001", "step-00000002", "last"));
  EXPECT_EQ(content(*store.last()), "two");
}

TEST_F(Store, ReplacesAStep) {
  CheckpointStore store(scratch.path());
  save(store, 5, "first", true);
  save(store, 5, "second");
  EXPECT_EQ(content(*store.last()), "second");
  EXPECT_EQ(content(*store.best()), "second");
  EXPECT_THAT(names_in(folder()), UnorderedElementsAre("step-00000005", "last", "best"));
}

// Removing takes as long as writing: whoever waits for the commit need not wait for it.
TEST_F(Store, LeavesWhatACommitTakesOutUntilItIsToBeRemoved) {
  CheckpointStore store(scratch.path());
  save(store, 1, "first");
  auto staging = store.begin(2);
  fill(staging.path(), "second");
  staging.commit(false);
  EXPECT_THAT(store.steps(), ElementsAre(2));
  EXPECT_THAT(names_in(folder()),
              UnorderedElementsAre("step-00000002", "step-00000001.discarded.tmp", "last"));
  store.remove_discarded();
  EXPECT_THAT(names_in(folder()), UnorderedElementsAre("step-00000002", "last"));
}

// The states between the system calls of a replacement, made by hand: each is what a crash leaves.
TEST_F(Store, RecoversFromACrashAfterTheRefugeWasMade) {
  CheckpointStore store(scratch.path());
  save(store, 5, "first");
  fill(folder() / "step-00000005.old", "first");
  EXPECT_EQ(content(*store.last()), "first");
  save(store, 5, "second");
  EXPECT_EQ(content(*store.last()), "second");
  EXPECT_THAT(names_in(folder()), UnorderedElementsAre("step-00000005", "last"));
}

TEST_F(Store, RecoversFromACrashWhileOnlyTheRefugeIsThere) {
  CheckpointStore store(scratch.path());
  fill(folder() / "step-00000005.old", "first");
  fs::create_symlink("step-00000005.old", folder() / "last");
  EXPECT_EQ(content(*store.last()), "first");
  EXPECT_EQ(store.resolve("5"), folder() / "step-00000005.old");
  { auto staging = store.begin(6); }
  EXPECT_EQ(content(*store.last()), "first");
  save(store, 5, "second");
  EXPECT_EQ(content(*store.last()), "second");
  EXPECT_THAT(names_in(folder()), UnorderedElementsAre("step-00000005", "last"));
}

TEST_F(Store, RecoversFromACrashBeforeTheLinksCameBack) {
  CheckpointStore store(scratch.path(), 2);
  save(store, 5, "second");
  fill(folder() / "step-00000005.old", "first");
  fs::remove(folder() / "last");
  for (const char* link : {"last", "best"})
    fs::create_symlink("step-00000005.old", folder() / link);
  EXPECT_EQ(content(*store.last()), "first");
  save(store, 6, "six");
  EXPECT_EQ(store.best(), folder() / "step-00000005");
  EXPECT_THAT(names_in(folder()),
              UnorderedElementsAre("step-00000005", "step-00000006", "last", "best"));
}

/// A commit of the step, from where its files are there on.
auto commit_in(const fs::path& out, Index step) {
  return [out, step] {
    const auto store = std::make_shared<CheckpointStore>(out);
    const auto staging = std::make_shared<CheckpointStore::Staging>(store->begin(step));
    fill(staging->path(), "new");
    return [store, staging] {
      staging->commit(true);
      store->remove_discarded();
    };
  };
}

/// Kills the commit of `step` over an existing step 1 at each of its system calls in turn: all that
/// can be reached must be complete, and the next run must find nothing in its way.
void survives_every_crash(Index step) {
  int calls = 0;
  for (bool killed = true; killed;) {
    const test::ScratchDirectory scratch;
    CheckpointStore store(scratch.path());
    save(store, 1, "old", true);
    try {
      killed = test::is_killed_at_call(commit_in(scratch.path(), step), ++calls);
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
    for (const char* link : {"last", "best"})
      ASSERT_NE(content(store.resolve(link)), "torn") << link << ", killed at call " << calls;
    for (const Index found : store.steps())
      ASSERT_NE(content(store.resolve(std::to_string(found))), "torn") << "at call " << calls;
    save(store, 3, "next", true);
    ASSERT_EQ(content(*store.last()), "next");
    ASSERT_THAT(names_in(scratch / "checkpoints"),
                UnorderedElementsAre("step-00000003", "last", "best"));
  }
  EXPECT_GT(calls, 20) << "the commit was hardly traced";
}

TEST(CrashedCommit, OfANewStepLeavesACompleteCheckpoint) {
  survives_every_crash(2);
}

TEST(CrashedCommit, OfAnExistingStepLeavesACompleteCheckpoint) {
  survives_every_crash(1);
}

TEST_F(Store, ResolvesSelectors) {
  CheckpointStore store(scratch / "run", 3);
  save(store, 1, "one", true);
  save(store, 2, "two");
  const CheckpointStore other(scratch / "elsewhere");
  EXPECT_EQ(content(store.resolve("last")), "two");
  EXPECT_EQ(content(store.resolve("best")), "one");
  EXPECT_EQ(content(store.resolve("1")), "one");
  EXPECT_EQ(content(store.resolve("00000001")), "one");
  const std::string path = (scratch / "run" / "checkpoints" / "step-00000001").string();
  EXPECT_EQ(other.resolve(path), path);
  EXPECT_EQ(content(other.resolve((scratch / "run").string())), "two");
}

TEST_F(Store, SaysWhatCannotBeResolved) {
  CheckpointStore store(scratch.path(), 3);
  EXPECT_THAT([&] { return store.resolve("last"); },
              ThrowsMessage<Error>(AllOf(HasSubstr("checkpoints: no 'last' checkpoint"),
                                         HasSubstr("give the folder that train_gpt --out wrote"))));
  const CheckpointStore absent(scratch.path() / "absent", 1, "draw one");
  EXPECT_THAT([&] { return absent.resolve("best"); },
              ThrowsMessage<Error>(HasSubstr("absent: no such folder: draw one")));
  save(store, 3, "three");
  save(store, 7, "seven");
  EXPECT_THAT([&] { return store.resolve("best"); },
              ThrowsMessage<Error>(
                  AllOf(HasSubstr("no 'best' checkpoint"), HasSubstr("the steps there: 3, 7"))));
  EXPECT_THAT([&] { return store.resolve("4"); },
              ThrowsMessage<Error>(AllOf(HasSubstr("no checkpoint of step 4"), HasSubstr("3, 7"))));
  EXPECT_THAT([&] { return store.resolve("99999999999999999999"); },
              ThrowsMessage<Error>(HasSubstr("is no step number")));
  for (const char* selector : {"", "lst", "/nonexistent/folder", "-1"})
    EXPECT_THAT([&] { return store.resolve(selector); },
                ThrowsMessage<Error>(HasSubstr("names no checkpoint: give last, best, a step")))
        << selector;
}

TEST_F(Store, NamesADanglingLink) {
  CheckpointStore store(scratch.path(), 2);
  save(store, 3, "three");
  save(store, 7, "seven");
  fs::remove_all(folder() / "step-00000007");
  EXPECT_THAT([&] { return store.last(); },
              ThrowsMessage<Error>(AllOf(
                  HasSubstr("checkpoints/last: points to 'step-00000007', which is no folder"),
                  HasSubstr("the steps there: 3"))));
}

TEST_F(Store, NamesAFolderThatCannotBeMade) {
  write_durably(scratch / "file", "text");
  CheckpointStore store(scratch / "file");
  EXPECT_THAT([&] { return store.begin(1); },
              ThrowsMessage<Error>(AllOf(HasSubstr("file/checkpoints: cannot create the folder"),
                                         HasSubstr("choose a writable --out"))));
}

TEST_F(Store, NamesAFolderThatCannotBeWritten) {
  if (::geteuid() == 0) GTEST_SKIP() << "permissions do not bind root";
  fs::create_directories(folder());
  fs::permissions(folder(), fs::perms::owner_read | fs::perms::owner_exec);
  CheckpointStore store(scratch.path());
  EXPECT_THAT([&] { return store.begin(1); },
              ThrowsMessage<Error>(HasSubstr("step-00000001.tmp: cannot create the folder")));
  fs::permissions(folder(), fs::perms::owner_all);
}

TEST_F(Store, NamesAFolderInTheLinksPlace) {
  fs::create_directories(folder() / "last");
  CheckpointStore store(scratch.path());
  EXPECT_THAT([&] { save(store, 1, "text"); },
              ThrowsMessage<Error>(HasSubstr("checkpoints/last: cannot let the link point")));
  EXPECT_THAT(names_in(folder()), ElementsAre("last"));
}

TEST_F(Store, WritesSeveralAtATime) {
  CheckpointStore store(scratch.path(), /*keep=*/2);
  auto first = store.begin(1);
  fill(first.path(), "one");
  {
    auto second = store.begin(2);
    auto dropped = store.begin(3);
    fill(second.path(), "two");
    first.commit(false);
    EXPECT_EQ(content(*store.last()), "one");
    second.commit(false);
    fill(dropped.path(), "three");
  }
  EXPECT_EQ(store.steps(), (std::vector<Index>{1, 2}));
  EXPECT_EQ(content(*store.last()), "two");
  EXPECT_FALSE(std::filesystem::exists(store.staging_path(3)));
}

TEST_F(Store, HoldsItsCallerToTheContract) {
  EXPECT_THROW(CheckpointStore(scratch.path(), 0), ContractViolation);
  CheckpointStore store(scratch.path());
  EXPECT_THROW((void)store.begin(-1), ContractViolation);
  auto staging = store.begin(1);
  EXPECT_THROW((void)store.begin(1), ContractViolation);
  staging.commit(false);
  EXPECT_THROW(staging.commit(false), ContractViolation);
  EXPECT_NO_THROW(save(store, 2, "text"));
}

}  // namespace
}  // namespace dos::io::checkpoint_directory_test
