// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "platform/mpi.hpp"

namespace dos::platform::mpi_absent_test {
namespace {

TEST(MpiAbsent, IsRankZeroOfOne) {
  int argc = 0;
  char** argv = nullptr;
  const MpiEnvironment environment(argc, argv);
  EXPECT_EQ(environment.rank(), 0);
  EXPECT_EQ(environment.size(), 1);
  EXPECT_EQ(MpiEnvironment::library_version(), "none");
}

}  // namespace
}  // namespace dos::platform::mpi_absent_test
