// SPDX-License-Identifier: Apache-2.0
// Started by mpiexec on two ranks.
#include "platform/mpi.hpp"

#include <gmock/gmock.h>
#include <mpi.h>

#include <array>
#include <thread>

#include "base/file.hpp"

namespace dos::platform::mpi_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using Direction = MpiMessage::Direction;

constexpr Index kRanks = 2;
const MpiEnvironment* environment = nullptr;

Index other() {
  return 1 - environment->rank();
}

std::vector<std::byte> pattern(std::size_t size, Index rank) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i)
    bytes[i] = static_cast<std::byte>((i * 7 + static_cast<std::size_t>(rank) * 101) % 251);
  return bytes;
}

std::vector<Index> wait_for(MpiTransfers& transfers, std::size_t count) {
  std::vector<Index> ended;
  while (ended.size() < count) transfers.test(ended);
  return ended;
}

TEST(Mpi, StartsWithoutDriversOfOpenCl) {
  EXPECT_THAT(read_text("/proc/self/maps"), Not(HasSubstr("libpocl")));
}

TEST(Mpi, EveryRankIsThereOnce) {
  EXPECT_EQ(environment->size(), kRanks);
  ASSERT_GE(environment->rank(), 0);
  ASSERT_LT(environment->rank(), kRanks);
  const int mine = 1 << environment->rank();
  int all = 0;
  MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  EXPECT_EQ(all, (1 << kRanks) - 1);
}

TEST(Mpi, IsInitialisedForCallsFromAnyThread) {
  int provided = MPI_THREAD_SINGLE;
  MPI_Query_thread(&provided);
  EXPECT_GE(provided, MPI_THREAD_SERIALIZED);
}

// MPICH has two ways to ask.
TEST(Mpi, SupportOfGpusIsTheLibrarys) {
  EXPECT_EQ(MpiEnvironment::is_cuda_aware(), MPIX_Query_cuda_support() != 0);
}

TEST(Mpi, LibraryIsMpich) {
  EXPECT_THAT(MpiEnvironment::library_version(), StartsWith("MPICH"));
  EXPECT_THAT(MpiEnvironment::library_version(), Not(HasSubstr("\n")));
}

TEST(Mpi, TagsHaveRoom) {
  EXPECT_GE(environment->largest_tag(), 32767);
}

// Whole, and in parts of 7 bytes; from a thread that did not initialise MPI.
TEST(MpiTransfers, BytesArrive) {
  std::thread thread([] {
    for (const Index part : {kLargestMpiPart, Index{7}})
      for (const std::size_t size : {0U, 1U, 7U, 8U, 4097U, 1U << 18U}) {
        MpiTransfers transfers(*environment, part);
        std::vector<std::byte> sent = pattern(size, environment->rank());
        std::vector<std::byte> received(size);
        transfers.start({Direction::kReceive, received, other(), 3}, 10);
        transfers.start({Direction::kSend, sent, other(), 3}, 11);
        EXPECT_EQ(transfers.active(), 2);
        EXPECT_THAT(wait_for(transfers, 2), ::testing::UnorderedElementsAre(10, 11));
        EXPECT_EQ(transfers.active(), 0);
        EXPECT_EQ(received, pattern(size, other())) << size;
      }
  });
  thread.join();
}

TEST(MpiTransfers, EqualTagsMeetInOrderAndOthersDoNotWait) {
  MpiTransfers transfers(*environment);
  std::array<std::vector<std::byte>, 3> sent{pattern(5, 1), pattern(5, 2), pattern(5, 3)};
  std::array<std::vector<std::byte>, 3> received{sent};
  for (auto& bytes : received) bytes.assign(5, std::byte{0});
  transfers.start({Direction::kReceive, received[2], other(), 9}, 2);
  transfers.start({Direction::kReceive, received[0], other(), 8}, 0);
  transfers.start({Direction::kReceive, received[1], other(), 8}, 1);
  for (const Index i : {0, 1, 2})
    transfers.start({Direction::kSend, sent[static_cast<std::size_t>(i)], other(), i == 2 ? 9 : 8},
                    10 + i);
  wait_for(transfers, 6);
  EXPECT_EQ(received, sent);
}

TEST(MpiTransfers, AMessageOfAnotherLengthIsAnErrorThatNamesTheRank) {
  MpiTransfers transfers(*environment);
  std::vector<std::byte> sent(3);
  std::vector<std::byte> received(5);
  transfers.start({Direction::kReceive, received, other(), 4}, 0);
  MpiTransfers senders(*environment);
  senders.start({Direction::kSend, sent, other(), 4}, 0);
  try {
    wait_for(transfers, 1);
    ADD_FAILURE() << "three bytes for five";
  } catch (const MpiError& error) {
    EXPECT_EQ(error.peer(), other());
    EXPECT_EQ(error.what(), fmt::format("rank {} sent 3 bytes where 5 belong", other()));
  }
  EXPECT_THAT(wait_for(senders, 1), ElementsAre(0));
  transfers.forget();
}

}  // namespace
}  // namespace dos::platform::mpi_test

int main(int argc, char** argv) {
  const dos::platform::MpiEnvironment mpi(argc, argv);
  dos::platform::mpi_test::environment = &mpi;
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
