// SPDX-License-Identifier: Apache-2.0
// A run that goes back: what it is no longer behind is set aside, comes back when it returns there,
// and is never taken for its own.
#include <gmock/gmock.h>

#include <fstream>
#include <memory>

#include "base/error.hpp"
#include "base/file.hpp"
#include "io/checkpoint_directory.hpp"
#include "io/checkpoint_folders.hpp"
#include "io/checkpoint_levels.hpp"
#include "io/checkpoint_manifest.hpp"
#include "io/killed_at_call.hpp"
#include "sanitized.hpp"
#include "scratch_directory.hpp"

namespace dos::io::checkpoint_aside_test {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

void save(CheckpointStore& store, Index step, const std::string& text, bool best = false) {
  auto staging = store.begin(step);
  for (const char* name : {kManifestName, "model"}) std::ofstream(staging.path() / name) << text;
  staging.commit(best);
  store.remove_discarded();
}

/// What save() was given; "torn": not all of it is there.
std::string text_of(const fs::path& checkpoint) {
  const std::string text = read_text(checkpoint / kManifestName);
  return read_text(checkpoint / "model") == text ? text : "torn";
}

class GoneBack : public testing::Test {
 protected:
  GoneBack() {
    for (const Index step : {2, 4, 6, 8}) save(store, step, "first", step == 6);
  }

  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(folder))
      found.push_back(entry.path().filename());
    return found;
  }
  [[nodiscard]] std::vector<Index> steps_aside() const {
    std::vector<Index> found;
    for (const CheckpointStore::Aside& each : store.aside()) found.push_back(each.step);
    return found;
  }

  test::ScratchDirectory scratch;
  fs::path folder = scratch / "checkpoints";
  CheckpointStore store{scratch.path(), 99};
};

TEST(AsideName, IsReadAsItIsWritten) {
  for (const Index number : {1, 2, 10}) {
    const std::string name = name_of(AsideName{.step = 123456789012, .after = 7, .number = number});
    const auto parsed = parse_aside(name);
    ASSERT_TRUE(parsed) << name;
    EXPECT_EQ(parsed->step, 123456789012);
    EXPECT_EQ(parsed->after, 7);
    EXPECT_EQ(parsed->number, number);
  }
  EXPECT_EQ(name_of(AsideName{.step = 9, .after = 0}), "step-00000009.after-0");
  for (const char* name :
       {"", "step-00000009", "step-9.after-1", "step-00000009.after-", "step-00000009.after-x",
        "step-00000009.after-01", "step-00000009.after-1-1", "step-00000009.after-1-",
        "step-00000009.after--1", "step-00000009.after-1.tmp", ".after-1"})
    EXPECT_FALSE(parse_aside(name)) << name;
}

TEST_F(GoneBack, LinksAreWhereTheRunIs) {
  store.go_on_from(4, store.resolve("4"));
  EXPECT_EQ(store.last(), folder / "step-00000004") << "before the first commit";
  EXPECT_THAT(store.steps(), ElementsAre(2, 4));
  EXPECT_THAT(steps_aside(), ElementsAre(6, 8));
  // The best of the run so far is it still.
  EXPECT_EQ(store.best(), folder / "step-00000006.after-4");
  EXPECT_EQ(text_of(*store.best()), "first");
  EXPECT_THAT(names(), UnorderedElementsAre("step-00000002", "step-00000004", "last", "best",
                                            "step-00000006.after-4", "step-00000008.after-4"));
}

// Those that are gone back to where the newest is damaged.
TEST_F(GoneBack, WhatIsSetAsideIsNoneOfTheRun) {
  store.go_on_from(4, store.resolve("4"));
  save(store, 9, "second");
  std::vector<Index> steps;
  for (const auto& each : CheckpointLevels(scratch.path()).all()) steps.push_back(each.step);
  EXPECT_THAT(steps, ElementsAre(9, 4, 2));
}

TEST_F(GoneBack, WhatIsSetAsideGoesWhenTheRunHasPassedIt) {
  store.go_on_from(4, store.resolve("4"));
  save(store, 5, "second");
  EXPECT_THAT(steps_aside(), ElementsAre(6, 8));
  save(store, 8, "second");
  EXPECT_THAT(steps_aside(), ElementsAre(6)) << "the best";
  EXPECT_EQ(text_of(store.resolve("8")), "second");
  save(store, 10, "second", /*best=*/true);
  EXPECT_THAT(steps_aside(), IsEmpty());
  EXPECT_THAT(store.steps(), ElementsAre(2, 4, 5, 8, 10));
}

TEST_F(GoneBack, WhatTheRunReturnsToComesBack) {
  store.go_on_from(4, store.resolve("4"));
  save(store, 5, "second");
  save(store, 6, "second");
  EXPECT_EQ(text_of(store.resolve("6")), "second");
  const fs::path former = store.resolve("8");
  EXPECT_TRUE(CheckpointStore::is_aside(former));
  EXPECT_EQ(CheckpointStore::step_of_folder(former), 8);
  store.go_on_from(8, former);
  EXPECT_EQ(store.last(), folder / "step-00000008");
  EXPECT_EQ(store.best(), folder / "step-00000006");
  EXPECT_THAT(store.steps(), ElementsAre(2, 4, 6, 8));
  for (const Index step : store.steps())
    EXPECT_EQ(text_of(store.resolve(std::to_string(step))), "first") << step;
  EXPECT_THAT(steps_aside(), ElementsAre(5, 6));
  EXPECT_EQ(text_of(folder / "step-00000006.after-4-2"), "second");
}

TEST_F(GoneBack, WhatComesAfterThatStaysAside) {
  store.go_on_from(4, store.resolve("4"));
  store.go_on_from(6, store.resolve("6"));
  EXPECT_THAT(store.steps(), ElementsAre(2, 4, 6));
  EXPECT_THAT(steps_aside(), ElementsAre(8));
}

TEST_F(GoneBack, TheSecondTimeHasNamesOfItsOwn) {
  store.go_on_from(4, store.resolve("4"));
  for (const Index step : {6, 7}) save(store, step, "second");
  store.go_on_from(4, store.resolve("4"));
  EXPECT_THAT(steps_aside(), ElementsAre(6, 6, 7, 8));
  save(store, 5, "third");
  store.go_on_from(7, store.resolve("7"));
  EXPECT_THAT(store.steps(), ElementsAre(2, 4, 6, 7));
  EXPECT_EQ(text_of(folder / "step-00000006"), "second");
  EXPECT_EQ(text_of(store.resolve("7")), "second");
  EXPECT_EQ(text_of(store.resolve("5")), "third");
}

TEST_F(GoneBack, ALostLinkComesBack) {
  fs::remove(folder / "last");
  store.go_on_from(8, store.resolve("8"));
  EXPECT_EQ(store.last(), folder / "step-00000008");
  EXPECT_THAT(steps_aside(), IsEmpty());
}

TEST_F(GoneBack, AFolderWithoutCheckpointsStaysAsItIs) {
  CheckpointStore none(scratch / "none");
  none.go_on_from(3, store.resolve("4"));
  EXPECT_FALSE(fs::exists(scratch / "none"));
}

// Another level holds what the run returns to.
TEST_F(GoneBack, WhatWasMadeSinceIsSetAsideOnEachLevel) {
  CheckpointStore other(scratch / "other", 99);
  for (const Index step : {4, 5}) save(other, step, "second");
  store.go_on_from(4, store.resolve("4"));
  const fs::path former = store.resolve("8");
  store.go_on_from(8, former);
  other.go_on_from(8, former);
  EXPECT_THAT(other.steps(), ElementsAre(4));
  EXPECT_EQ(CheckpointStore::step_of_folder(*other.last()), 4);
}

/// A store of two lines behind step 4, and the beginning of a return to the first one.
auto begin_return(const fs::path& out) {
  return [out] {
    const auto store = std::make_shared<CheckpointStore>(out, 99);
    const fs::path former = store->resolve("8");
    return [store, former] { store->go_on_from(8, former); };
  };
}

TEST(CrashedReturn, LeavesLinksToCompleteCheckpoints) {
  // Most of the calls only read.
  constexpr int kStride = kIsSanitized ? 17 : 3;
  int calls = 1;
  for (bool killed = true; killed; calls += kStride) {
    const test::ScratchDirectory scratch;
    CheckpointStore store(scratch.path(), 99);
    for (const Index step : {4, 6, 8}) save(store, step, "first", step == 8);
    store.go_on_from(4, store.resolve("4"));
    save(store, 5, "second");
    try {
      killed = test::is_killed_at_call(begin_return(scratch.path()), calls);
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
    for (const char* link : {"last", "best"})
      ASSERT_NE(text_of(store.resolve(link)), "torn") << link << ", killed at call " << calls;
    // The next start goes on from what `last` names, and has all of its line.
    const fs::path last = *store.last();
    const std::string line = text_of(last);
    const Index step = CheckpointStore::step_of_folder(last).value();
    CheckpointStore next(scratch.path(), 99);
    next.go_on_from(step, last);
    ASSERT_EQ(CheckpointStore::step_of_folder(*next.last()), step) << "at call " << calls;
    ASSERT_EQ(text_of(*next.last()), line);
    save(next, 9, "next", true);
    for (const CheckpointStore::Aside& each : next.aside())
      ASSERT_NE(text_of(each.folder), "torn") << "at call " << calls;
  }
  EXPECT_GT(calls, 20) << "the return was hardly traced";
}

}  // namespace
}  // namespace dos::io::checkpoint_aside_test
