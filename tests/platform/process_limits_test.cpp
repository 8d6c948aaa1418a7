// SPDX-License-Identifier: Apache-2.0
#include "platform/process_limits.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdlib>

#include "base/error.hpp"
#include "fails_with.hpp"

namespace dos::platform::process_limits_test {
namespace {

using test::fails_with;

/// In a process of its own, which may have `soft` files open, and could have `hard`.
void check(rlim_t soft, rlim_t hard, bool is_enough) {
  const rlimit limit{.rlim_cur = soft, .rlim_max = hard};
  ::setrlimit(RLIMIT_NOFILE, &limit);
  if (is_enough)
    EXPECT_NO_THROW(expect_threads_and_files(2, 64));
  else
    EXPECT_THAT([] { expect_threads_and_files(2, 64); },
                fails_with({"more files can be opened, a run needs 64", "ulimit -n is 20"}));
  std::_Exit(testing::Test::HasFailure() ? EXIT_FAILURE : EXIT_SUCCESS);
}

TEST(ProcessLimits, OfFilesAreRaisedAsFarAsTheyGo) {
  EXPECT_EXIT(check(20, 200, true), testing::ExitedWithCode(EXIT_SUCCESS), "");
}

TEST(ProcessLimits, OfFilesAreNamed) {
  EXPECT_EXIT(check(10, 20, false), testing::ExitedWithCode(EXIT_SUCCESS), "");
}

TEST(ProcessLimits, ThreadsThatAreThereAreEnough) {
  EXPECT_NO_THROW(expect_threads_and_files(40, 0));
}

}  // namespace
}  // namespace dos::platform::process_limits_test
