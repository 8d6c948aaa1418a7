// SPDX-License-Identifier: Apache-2.0
// Started by mpiexec on any number of ranks: every rank runs every test.
#include "ranks/exchange.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <memory>
#include <numeric>

#include "mpi_main.hpp"
#include "ranks/gather.hpp"

namespace dos::ranks::exchange_test {
namespace {

using Direction = platform::MpiMessage::Direction;

std::span<std::byte> bytes_of(std::vector<Index>& values) {
  return std::as_writable_bytes(std::span(values));
}

double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

class ExchangeTest : public ::testing::Test {
 protected:
  ExchangeTest() {
    exchange_ = std::make_unique<Exchange>(*environment, ExchangeOptions{.numbers = 8});
  }

  [[nodiscard]] std::vector<Index> peers() const {
    std::vector<Index> result;
    for (Index peer = 0; peer < exchange_->ranks(); ++peer)
      if (peer != exchange_->rank()) result.push_back(peer);
    return result;
  }

  std::unique_ptr<Exchange> exchange_;
};

TEST_F(ExchangeTest, NothingToSayClosesOnEveryRank) {
  exchange_->run({});
  exchange_->close();
  EXPECT_FALSE(exchange_->failed());
}

// Each rank posts its messages in another order, and more of them than MPI delivers at once.
TEST_F(ExchangeTest, NoOrderOfPostingIsNeeded) {
  const Index own = exchange_->rank();
  constexpr Index kNumbers = 8;
  constexpr std::size_t kSize = 20'000;
  std::vector<std::vector<Index>> out(kNumbers);
  std::map<std::pair<Index, Index>, std::vector<Index>> in;
  std::vector<Message> messages;
  for (Index number = 0; number < kNumbers; ++number) {
    auto& values = out[static_cast<std::size_t>(number)];
    values.resize(kSize);
    std::iota(values.begin(), values.end(), 1'000'000 * own + 100'000 * number);
    for (const Index peer : peers()) {
      messages.push_back({Direction::kSend, bytes_of(values), peer, {Kind::kGradient, number, 0}});
      auto& received = in[{peer, number}];
      received.resize(kSize);
      messages.push_back(
          {Direction::kReceive, bytes_of(received), peer, {Kind::kGradient, number, 0}});
    }
  }
  if (!messages.empty())
    std::rotate(messages.begin(), messages.begin() + own * 5 % std::ssize(messages),
                messages.end());
  exchange_->run(std::move(messages));
  for (const auto& [name, values] : in) {
    EXPECT_EQ(values.front(), 1'000'000 * name.first + 100'000 * name.second);
    EXPECT_EQ(values.back(), values.front() + Index{kSize} - 1);
  }
  EXPECT_EQ(exchange_->sent()[Kind::kGradient],
            std::ssize(peers()) * kNumbers * Index{kSize} * Index{sizeof(Index)});
  EXPECT_EQ(exchange_->sent()[Kind::kParameter], 0);
  exchange_->close();
}

TEST_F(ExchangeTest, TextsOfEveryLengthReachEveryRank) {
  const std::string mine(static_cast<std::size_t>(exchange_->rank()) * 1000, 'x');
  const std::vector<std::string> texts = gather_texts(*exchange_, mine);
  ASSERT_EQ(std::ssize(texts), exchange_->ranks());
  for (std::size_t rank = 0; rank < texts.size(); ++rank)
    EXPECT_EQ(texts[rank], std::string(rank * 1000, 'x'));
  exchange_->close();
}

TEST_F(ExchangeTest, NotesOfStepsAheadKeepTheirOrder) {
  {
    StepNotes notes(*exchange_);
    for (Index step = 1; step <= 3; ++step)
      notes.post(step, {.signal = 10 * step + exchange_->rank(), .busy_ms = 0.5});
    for (Index step = 1; step <= 3; ++step) {
      const std::vector<StepNote> all = notes.take();
      ASSERT_EQ(std::ssize(all), exchange_->ranks());
      for (Index rank = 0; rank < exchange_->ranks(); ++rank)
        EXPECT_EQ(all[static_cast<std::size_t>(rank)].signal, 10 * step + rank);
    }
  }
  exchange_->close();
}

// 5 % of a core, with a message under way that does not come for a while, and without.
TEST_F(ExchangeTest, WaitingCostsLittle) {
  using std::chrono::milliseconds;
  constexpr double kWait = 0.5;
  std::vector<Index> value(1);
  std::vector<Message> receives;
  for (const Index peer : peers()) {
    if (exchange_->rank() != 0) break;
    receives.push_back({Direction::kReceive, bytes_of(value), peer, {Kind::kLoss, 1, 0}});
  }
  for (const bool has_message : {false, true}) {
    std::thread waiting([&] {
      if (has_message) exchange_->run(receives);
    });
    // Other work on the machine only adds to it.
    double least = kWait;
    for (int window = 0; window < 3; ++window) {
      const double before = processor_seconds();
      std::this_thread::sleep_for(std::chrono::duration<double>(kWait));
      least = std::min(least, processor_seconds() - before);
    }
    EXPECT_LT(least, 0.05 * kWait) << has_message;
    if (has_message && exchange_->rank() != 0)
      exchange_->run({{Direction::kSend, bytes_of(value), 0, {Kind::kLoss, 1, 0}}});
    waiting.join();
  }
  EXPECT_GT(exchange_->processor_share(), 0);
  EXPECT_LT(exchange_->processor_share(), 1);
  exchange_->close();
}

}  // namespace
}  // namespace dos::ranks::exchange_test
