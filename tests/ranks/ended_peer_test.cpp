// SPDX-License-Identifier: Apache-2.0
// Started by mpiexec on two or more ranks. MPI is not finalised after a failure: there is one test
// a process.
#include <gmock/gmock.h>

#include <array>

#include "mpi_main.hpp"
#include "ranks/exchange.hpp"
#include "rt/tasks.hpp"

namespace dos::ranks::ended_peer_test {
namespace {

// Rank 0 is done, and the others still want something from it: nobody waits for ever.
TEST(EndedPeer, WhoWaitsForItFailsAndSaysWhere) {
  Exchange exchange(*environment, {.timeout = Seconds(0.5), .numbers = 1});
  exchange.set_step(4);
  if (environment->rank() == 0) {
    EXPECT_THAT(test::message_of<Error>([&] { exchange.close(); }),
                testing::AllOf(testing::HasSubstr("rank 0 ended at step 4 without the messages"),
                               testing::HasSubstr("this is rank 0, at step 4")));
    return;
  }
  std::array<std::byte, 8> bytes{};
  EXPECT_THAT(
      test::message_of<Error>([&] {
        exchange.run({{platform::MpiMessage::Direction::kReceive, bytes, 0, {Kind::kLoss, 0, 0}}});
      }),
      testing::AllOf(
          testing::HasSubstr("rank 0 ended at step 4 without the messages"),
          testing::HasSubstr(fmt::format("this is rank {}, at step 4", environment->rank()))));
}

}  // namespace
}  // namespace dos::ranks::ended_peer_test
