// SPDX-License-Identifier: Apache-2.0
// One rank that sends itself messages: all threads of an exchange, without mpiexec, so that the
// sanitizers see them wherever tests run.
#include <gmock/gmock.h>

#include <atomic>
#include <future>
#include <latch>
#include <memory>
#include <numeric>
#include <thread>

#include "ranks/exchange_watch.hpp"
#include "ranks/gather.hpp"
#include "ranks/handle_transfer.hpp"
#include "rt/machine_view.hpp"
#include "rt/tasks.hpp"
#include "rt/two_memory_nodes.hpp"

namespace dos::ranks::alone_test {
namespace {

using Direction = platform::MpiMessage::Direction;

class Alone : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    static int argc = 0;
    static char** argv = nullptr;
    mpi_ = std::make_unique<platform::MpiEnvironment>(argc, argv);
  }
  static void TearDownTestSuite() { mpi_.reset(); }

  static std::unique_ptr<platform::MpiEnvironment> mpi_;
  Exchange exchange_{*mpi_, {.numbers = 4}};
};

std::unique_ptr<platform::MpiEnvironment> Alone::mpi_;

std::span<std::byte> bytes_of(std::vector<Index>& values) {
  return std::as_writable_bytes(std::span(values));
}

// From nothing to more than MPI sends at once, while others look at what the exchange knows.
TEST_F(Alone, ThreadsPostAndWaitSideBySide) {
  constexpr Index kThreads = 4;
  constexpr Index kRounds = 20;
  constexpr Index kLargest = 20'000;
  Index bytes = 0;
  std::vector<std::thread> threads;
  for (Index number = 0; number < kThreads; ++number) {
    bytes += kRounds * (kLargest * number / (kThreads - 1)) * Index{sizeof(Index)};
    threads.emplace_back([&, number] {
      const auto size = static_cast<std::size_t>(kLargest * number / (kThreads - 1));
      for (Index round = 0; round < kRounds; ++round) {
        std::vector<Index> out(size);
        std::iota(out.begin(), out.end(), 1000 * number + round);
        std::vector<Index> in(size);
        exchange_.set_step(round);
        exchange_.run({{Direction::kSend, bytes_of(out), 0, {Kind::kGradient, number, round}},
                       {Direction::kReceive, bytes_of(in), 0, {Kind::kGradient, number, round}}});
        EXPECT_EQ(in, out);
        EXPECT_FALSE(exchange_.failed());
        EXPECT_GE(exchange_.sent()[Kind::kGradient], 0);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(exchange_.sent()[Kind::kGradient], bytes);
  exchange_.close();
}

TEST_F(Alone, NotesAndTextsAreItsOwn) {
  EXPECT_EQ(gather_texts(exchange_, "mine"), std::vector<std::string>{"mine"});
  StepNotes notes(exchange_);
  notes.post(1, {.signal = 10});
  EXPECT_EQ(notes.take().front().signal, 10);
  exchange_.close();
}

// Accesses are granted on workers and given back on the progress thread.
TEST_F(Alone, TransfersAreOrderedWithTasks) {
  constexpr Index kRounds = 50;
  rt::Session session({.scheduler = "", .cpu_workers = 2});
  const rt::Handle from(session, {.name = "from", .type = DType::kI32, .count = 1});
  const rt::Handle to(session, {.name = "to", .type = DType::kI32, .count = 1});
  {
    const rt::HostAccess first(from, rt::Mode::kWrite);
    first.as<std::int32_t>()[0] = 0;
  }
  const test::Body count = [](const rt::TaskView& task) { ++task.pointer<std::int32_t>(0)[0]; };
  Index matches = 0;
  std::vector<test::Body> looks;
  for (std::int32_t round = 1; round <= kRounds; ++round)
    looks.emplace_back([&matches, round](const rt::TaskView& task) {
      matches += task.pointer<std::int32_t>(0)[0] == round ? 1 : 0;
    });
  HandleTransfers transfers(exchange_);
  rt::Submitter submitter(session);
  for (Index round = 0; round < kRounds; ++round) {
    test::submit_body(submitter, count, {&from});
    transfers.send(from, {0}, {Kind::kParameter, 0, round});
    transfers.receive(to, 1, 0, {Kind::kParameter, 0, round});
    test::submit_body(submitter, looks[static_cast<std::size_t>(round)], {&to});
  }
  session.wait_all();
  EXPECT_EQ(matches, kRounds);
  transfers.wait();
  exchange_.close();
}

// No task runs: what has memory on the second node has it for messages.
TEST_F(Alone, MessagesGoOutOfAndIntoTheMemoryOfANode) {
  if (test::TwoMemoryNodes::kObstacle != nullptr) GTEST_SKIP() << test::TwoMemoryNodes::kObstacle;
  constexpr int kSecond = test::TwoMemoryNodes::kSecond;
  const test::TwoMemoryNodes machine;
  rt::Session session(test::TwoMemoryNodes::session());
  ASSERT_EQ(rt::view_machine().nodes.size(), 2U);
  const rt::Handle from(session, {.name = "from", .type = DType::kI32, .count = 2});
  const rt::Handle here(session, {.name = "here", .type = DType::kI32, .count = 2});
  const rt::Handle there(session, {.name = "there", .type = DType::kI32, .count = 2});
  {
    const rt::HostAccess first(from, rt::Mode::kWrite);
    first.as<std::int32_t>()[0] = 7;
    first.as<std::int32_t>()[1] = 8;
  }
  HandleTransfers through_host(exchange_);
  HandleTransfers through_second(exchange_, kSecond);
  through_second.send(from, {0}, {Kind::kGradient, 0, 0});
  through_host.receive(here, 2, 0, {Kind::kGradient, 0, 0});
  through_host.send(here, {0}, {Kind::kParameter, 0, 0});
  through_second.receive(there, 2, 0, {Kind::kParameter, 0, 0});
  through_second.wait();
  through_host.wait();
  EXPECT_TRUE(rt::is_allocated(from.raw(), kSecond));
  EXPECT_FALSE(rt::is_allocated(here.raw(), kSecond));
  EXPECT_TRUE(rt::is_allocated(there.raw(), kSecond));
  for (const rt::Handle* handle : {&from, &here, &there}) {
    const rt::HostAccess access(*handle, rt::Mode::kRead);
    EXPECT_EQ(access.as<std::int32_t>()[0], 7) << handle->name();
    EXPECT_EQ(access.as<std::int32_t>()[1], 8) << handle->name();
  }
  exchange_.close();
}

TEST_F(Alone, ThePreparationOfTheThreadComesBeforeTheNextMessage) {
  std::thread::id prepared;
  exchange_.prepare_thread([&] { prepared = std::this_thread::get_id(); });
  std::vector<Index> out{3};
  std::vector<Index> in{0};
  exchange_.run({{Direction::kSend, bytes_of(out), 0, {Kind::kGradient, 0, 0}},
                 {Direction::kReceive, bytes_of(in), 0, {Kind::kGradient, 0, 0}}});
  EXPECT_EQ(in, out);
  EXPECT_NE(prepared, std::thread::id{});
  EXPECT_NE(prepared, std::this_thread::get_id());
  exchange_.close();
}

TEST_F(Alone, APreparationThatFailsIsTheExchangesFailure) {
  exchange_.prepare_thread([] { fail("no device"); });
  std::vector<Index> out{3};
  EXPECT_THROW(exchange_.run({{Direction::kSend, bytes_of(out), 0, {Kind::kGradient, 0, 0}}}),
               Error);
  EXPECT_TRUE(exchange_.failed());
}

TEST_F(Alone, AFailureEndsWhatIsUnderWay) {
  std::vector<Index> never(1);
  std::thread waiting([&] {
    EXPECT_THROW(exchange_.run({{Direction::kReceive, bytes_of(never), 0, {Kind::kLoss, 0, 0}}}),
                 Error);
  });
  EXPECT_TRUE(exchange_.abandon("no reason"));
  waiting.join();
  EXPECT_TRUE(exchange_.failed());
  EXPECT_THROW(exchange_.close(), Error);
}

// As if MPI or the device never returned: an error elsewhere still finds its way out.
TEST_F(Alone, AThreadThatHangsHoldsNobodyWhoGivesUp) {
  std::latch hangs{1};
  std::latch ends{1};
  exchange_.configure({.timeout = Seconds(0.1), .numbers = 4});
  exchange_.prepare_thread([&] {
    hangs.count_down();
    ends.wait();
  });
  hangs.wait();
  EXPECT_FALSE(exchange_.abandon("the disk is full"));
  EXPECT_FALSE(exchange_.failed()) << "nobody could be told";
  ends.count_down();
  exchange_.configure({.timeout = Seconds(60), .numbers = 4});
  EXPECT_TRUE(exchange_.abandon("the disk is full"));
  EXPECT_TRUE(exchange_.failed());
}

// As if it were to do so in the middle of a step, while all others wait for messages.
TEST_F(Alone, AThreadThatHangsIsFound) {
  std::latch ends{1};
  std::promise<std::string> found;
  exchange_.configure({.timeout = Seconds(0.2), .numbers = 4});
  exchange_.set_step(5);
  std::latch hangs{1};
  exchange_.prepare_thread([&] {
    hangs.count_down();
    ends.wait();
  });
  hangs.wait();
  const ExchangeWatch watch(exchange_, [&](const std::string& why) { found.set_value(why); });
  const std::string why = found.get_future().get();
  EXPECT_THAT(why, testing::HasSubstr("has not come back from MPI"));
  EXPECT_THAT(why, testing::HasSubstr("this is rank 0, at step 5"));
  ends.count_down();
  exchange_.close();
}

TEST_F(Alone, AThreadThatWaitsOrHasEndedDoesNotHang) {
  std::atomic<bool> hangs{false};
  exchange_.configure({.timeout = Seconds(2), .numbers = 4});
  const ExchangeWatch watch(exchange_, [&](const std::string&) { hangs = true; });
  std::this_thread::sleep_for(std::chrono::milliseconds(2500));
  exchange_.close();
  std::this_thread::sleep_for(std::chrono::milliseconds(2500));
  EXPECT_FALSE(hangs);
}

}  // namespace
}  // namespace dos::ranks::alone_test
