// SPDX-License-Identifier: Apache-2.0
#include "io/discarded_folders.hpp"

#include <gmock/gmock.h>

#include "base/error.hpp"
#include "io/checkpoint_content.hpp"
#include "scratch_directory.hpp"

namespace dos::io::discarded_folders_test {
namespace {

using test::fill;
using test::names_in;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

// Nobody waits for what is still being removed, not even one that is of the same step.
TEST(DiscardedFolders, LoseTheirNamesAtOnceAndGoLater) {
  const test::ScratchDirectory scratch;
  DiscardedFolders discarded;
  for (const char* text : {"one", "two"}) {
    fill(scratch / "step-00000001", text);
    discarded.take(scratch / "step-00000001");
  }
  EXPECT_THAT(names_in(scratch.path()),
              UnorderedElementsAre("step-00000001.discarded.tmp", "step-00000001.discarded-2.tmp"));
  EXPECT_TRUE(discarded.has("step-00000001.discarded-2.tmp"));
  EXPECT_FALSE(discarded.has("step-00000001"));
  discarded.remove();
  EXPECT_THAT(names_in(scratch.path()), IsEmpty());
  EXPECT_FALSE(discarded.has("step-00000001.discarded-2.tmp"));
}

TEST(DiscardedFolders, ThatAreNotThereAreAnError) {
  const test::ScratchDirectory scratch;
  DiscardedFolders discarded;
  EXPECT_THROW(discarded.take(scratch / "step-00000001"), Error);
  EXPECT_FALSE(discarded.has("step-00000001.discarded.tmp"));
  discarded.remove();
}

}  // namespace
}  // namespace dos::io::discarded_folders_test
