// SPDX-License-Identifier: Apache-2.0
#include "base/stop.hpp"

#include <gtest/gtest.h>

#include <future>
#include <thread>

namespace dos::stop_test {
namespace {

using namespace std::chrono_literals;

TEST(SleepUnlessStopped, LastsForThePeriod) {
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(sleep_unless_stopped({}, 20ms));
  EXPECT_GE(std::chrono::steady_clock::now() - start, 20ms);
}

TEST(SleepUnlessStopped, EndsWhenAskedTo) {
  std::promise<bool> slept;
  auto result = slept.get_future();
  std::jthread sleeper(
      [&](const std::stop_token& stop) { slept.set_value(sleep_unless_stopped(stop, 24h)); });
  EXPECT_EQ(result.wait_for(20ms), std::future_status::timeout);
  sleeper.request_stop();
  EXPECT_FALSE(result.get());
}

TEST(SleepUnlessStopped, DoesNotBeginWhenAskedToEndBefore) {
  std::promise<void> asked;
  bool slept = true;
  std::jthread sleeper([&, before = asked.get_future()](const std::stop_token& stop) {
    before.wait();
    slept = sleep_unless_stopped(stop, 24h);
  });
  sleeper.request_stop();
  asked.set_value();
  sleeper.join();
  EXPECT_FALSE(slept);
}

}  // namespace
}  // namespace dos::stop_test
