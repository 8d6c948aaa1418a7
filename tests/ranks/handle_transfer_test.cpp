// SPDX-License-Identifier: Apache-2.0
// Started by mpiexec on two or more ranks: every rank runs every test.
#include "ranks/handle_transfer.hpp"

#include <gtest/gtest.h>

#include "mpi_main.hpp"
#include "rt/tasks.hpp"

namespace dos::ranks::handle_transfer_test {
namespace {

const rt::SessionConfig kOneWorker{.scheduler = "", .cpu_workers = 1};

std::vector<Index> others() {
  std::vector<Index> result;
  for (Index peer = 0; peer < environment->size(); ++peer)
    if (peer != environment->rank()) result.push_back(peer);
  return result;
}

// A number goes round: rank 0 counts it up, everybody copies it from there, many rounds ahead of
// the tasks. What a task wrote is sent, what was received is read, nothing is overwritten early.
TEST(HandleTransfers, AreOrderedWithTasksLikeTasks) {
  constexpr Index kRounds = 200;  // more than there are rounds of tags
  Exchange exchange(*environment, {.numbers = 1});
  rt::Session session(kOneWorker);
  const rt::Handle value(session, {.name = "v", .type = DType::kI32, .count = 3});
  const rt::Handle seen(session, {.name = "s", .type = DType::kI32, .count = kRounds});
  {
    const rt::HostAccess first(value, rt::Mode::kWrite);
    for (auto& element : first.as<std::int32_t>()) element = 0;
  }
  HandleTransfers transfers(exchange);
  const test::Body count = [](const rt::TaskView& task) {
    for (Index i = 0; i < 3; ++i) ++task.pointer<std::int32_t>(0)[i];
  };
  std::vector<test::Body> notes;
  for (Index round = 0; round < kRounds; ++round)
    notes.emplace_back([round](const rt::TaskView& task) {
      task.pointer<std::int32_t>(1)[round] = task.pointer<std::int32_t>(0)[2];
    });
  rt::Submitter submitter(session);
  for (Index round = 0; round < kRounds; ++round) {
    const MessageName name{Kind::kParameter, 0, round};
    if (environment->rank() == 0) {
      test::submit_body(submitter, count, {&value});
      transfers.send(value, others(), name);
    } else {
      transfers.receive(value, 3, 0, name);
    }
    test::submit_body(submitter, notes[static_cast<std::size_t>(round)], {&value, &seen});
  }
  session.wait_all();
  const rt::HostAccess access(seen, rt::Mode::kRead);
  for (Index round = 0; round < kRounds; ++round)
    EXPECT_EQ(access.as<std::int32_t>()[static_cast<std::size_t>(round)], round + 1);
  transfers.wait();
  exchange.close();
}

// What is shorter than the buffer, and nothing at all.
TEST(HandleTransfers, APartOfAHandle) {
  Exchange exchange(*environment, {.numbers = 4});
  rt::Session session(kOneWorker);
  const rt::Handle small(session, {.name = "a", .type = DType::kI32, .count = 2});
  const rt::Handle empty(session, {.name = "b", .type = DType::kI32, .count = 0});
  const rt::Handle large(session, {.name = "c", .type = DType::kI32, .count = 9});
  HandleTransfers transfers(exchange);
  if (environment->rank() == 0) {
    {
      const rt::HostAccess access(small, rt::Mode::kWrite);
      access.as<std::int32_t>()[0] = 4;
      access.as<std::int32_t>()[1] = 5;
    }
    transfers.send(small, others(), {Kind::kGradient, 3, 0});
    transfers.send(empty, others(), {Kind::kGradient, 2, 0});
  } else {
    transfers.receive(large, 2, 0, {Kind::kGradient, 3, 0});
    {
      const rt::HostAccess access(large, rt::Mode::kRead);
      EXPECT_EQ(access.as<std::int32_t>()[0], 4);
      EXPECT_EQ(access.as<std::int32_t>()[1], 5);
    }
    transfers.receive(large, 0, 0, {Kind::kGradient, 2, 0});
  }
  transfers.wait();
  exchange.close();
}

}  // namespace
}  // namespace dos::ranks::handle_transfer_test
