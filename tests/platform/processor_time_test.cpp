// SPDX-License-Identifier: Apache-2.0
#include "platform/processor_time.hpp"

#include <gtest/gtest.h>

#include <future>
#include <sstream>
#include <thread>

namespace dos::platform::processor_time_test {
namespace {

TEST(ProcessorTime, IsReadFromTheKernelsText) {
  // user nice system idle iowait irq softirq steal guest guest_nice
  std::istringstream stat("cpu  1000 20 300 7000 80 4 16 500 60 7\ncpu0 1 1 1 1 1 1 1 1 1 1\n");
  const auto time = read_processor_time(stat, 100);
  ASSERT_TRUE(time.has_value());
  // Time of guests is part of user already.
  EXPECT_DOUBLE_EQ(time->busy, 13.4);
  EXPECT_DOUBLE_EQ(time->idle, 70.8);
  EXPECT_DOUBLE_EQ(time->stolen, 5);
}

TEST(ProcessorTime, OfATextThatIsNoneIsNothing) {
  std::istringstream empty("");
  EXPECT_FALSE(read_processor_time(empty, 100).has_value());
  std::istringstream other("intr 1 2 3 4 5 6 7 8 9\n");
  EXPECT_FALSE(read_processor_time(other, 100).has_value());
}

TEST(ProcessorTime, OfThisProcessGrows) {
  const double before = own_processor_seconds();
  volatile double sum = 0;
  // Until the clock has moved: it may tick in milliseconds.
  while (own_processor_seconds() == before) sum = sum + 1;
  EXPECT_GT(own_processor_seconds(), before);
}

TEST(ProcessorTime, OfAThreadIsItsOwn) {
  std::promise<void> end;
  std::thread idle([&] { end.get_future().wait(); });
  const double before = thread_processor_seconds(pthread_self());
  volatile double sum = 0;
  while (thread_processor_seconds(pthread_self()) < before + 0.01) sum = sum + 1;
  EXPECT_LT(thread_processor_seconds(idle.native_handle()), 0.01);
  end.set_value();
  idle.join();
}

}  // namespace
}  // namespace dos::platform::processor_time_test
