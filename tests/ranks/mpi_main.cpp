// SPDX-License-Identifier: Apache-2.0
// main() of tests that several ranks run.
#include <gtest/gtest.h>

#include "mpi_main.hpp"

dos::platform::MpiEnvironment* dos::ranks::environment = nullptr;

int main(int argc, char** argv) {
  dos::platform::MpiEnvironment mpi(argc, argv);
  dos::ranks::environment = &mpi;
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
