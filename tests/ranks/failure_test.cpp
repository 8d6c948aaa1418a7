// SPDX-License-Identifier: Apache-2.0
// Started by mpiexec on two or more ranks. MPI is not finalised after a failure, and has messages
// that nobody will take: there is one test a process.
#include <gmock/gmock.h>

#include <atomic>

#include "mpi_main.hpp"
#include "ranks/handle_transfer.hpp"
#include "rt/tasks.hpp"

namespace dos::ranks::failure_test {
namespace {

// Rank 0 gives up. All others fail with its words; tasks that wait for messages run all the same,
// so that every program can end.
TEST(Failure, WhoStopsStopsAllAndTheGraphsDrain) {
  Exchange exchange(*environment, {.numbers = 1});
  exchange.set_step(7);
  rt::Session session({.scheduler = "", .cpu_workers = 1});
  const rt::Handle value(session, {.name = "v", .type = DType::kI32, .count = 1});
  HandleTransfers transfers(exchange);
  rt::Submitter submitter(session);
  std::atomic<bool> ran{false};
  const test::Body note = [&](const rt::TaskView&) { ran = true; };
  const Index peer = environment->rank() == 0 ? 1 : 0;
  transfers.receive(value, 1, peer, {Kind::kLoss, 0, 0});
  test::submit_body(submitter, note, {&value});
  if (environment->rank() == 0) {
    EXPECT_TRUE(exchange.abandon("the disk is full"));
  }
  session.wait_all();
  EXPECT_TRUE(ran);
  EXPECT_TRUE(exchange.failed());
  transfers.receive(value, 1, peer, {Kind::kLoss, 0, 1});
  transfers.wait();
  const std::string words = test::message_of<Error>([&] { exchange.run({}); });
  EXPECT_THAT(words, testing::HasSubstr("the disk is full"));
  EXPECT_THAT(words,
              testing::HasSubstr(fmt::format("this is rank {}, at step 7", environment->rank())));
  const char* where = environment->rank() == 0 ? "the disk" : "rank 0 stopped at step 7: the disk";
  EXPECT_THAT(words, testing::StartsWith(where));
  EXPECT_THROW(exchange.close(), Error);
}

}  // namespace
}  // namespace dos::ranks::failure_test
