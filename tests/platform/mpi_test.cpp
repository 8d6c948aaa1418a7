// SPDX-License-Identifier: Apache-2.0
// Started by mpiexec on two ranks.
#include "platform/mpi.hpp"

#include <gmock/gmock.h>
#include <mpi.h>

namespace dos::platform {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr Index kRanks = 2;
const MpiEnvironment* environment = nullptr;

TEST(Mpi, EveryRankIsThereOnce) {
  EXPECT_EQ(environment->size(), kRanks);
  ASSERT_GE(environment->rank(), 0);
  ASSERT_LT(environment->rank(), kRanks);
  const int mine = 1 << environment->rank();
  int all = 0;
  MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  EXPECT_EQ(all, (1 << kRanks) - 1);
}

TEST(Mpi, IsInitialisedForCallsFromTheMainThread) {
  int provided = MPI_THREAD_SINGLE;
  MPI_Query_thread(&provided);
  EXPECT_GE(provided, MPI_THREAD_FUNNELED);
}

TEST(Mpi, LibraryIsMpich) {
  EXPECT_THAT(MpiEnvironment::library_version(), StartsWith("MPICH"));
  EXPECT_THAT(MpiEnvironment::library_version(), Not(HasSubstr("\n")));
}

}  // namespace
}  // namespace dos::platform

int main(int argc, char** argv) {
  const dos::platform::MpiEnvironment mpi(argc, argv);
  dos::platform::environment = &mpi;
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
