// SPDX-License-Identifier: Apache-2.0
#include "sched_starpu/read_order.hpp"

#include <gmock/gmock.h>

#include <array>

namespace dos::sched_starpu::read_order_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class ReadOrderTest : public testing::Test {
 protected:
  /// Buffers by number, of 10 bytes each.
  void read(std::initializer_list<int> buffers) {
    for (const int buffer : buffers)
      order_.read(&names_[static_cast<std::size_t>(buffer)], units::Bytes(10));
  }
  [[nodiscard]] std::vector<std::ptrdiff_t> next(double bytes) const {
    std::vector<std::ptrdiff_t> numbers;
    for (const void* buffer : order_.next(units::Bytes(bytes)))
      numbers.push_back(static_cast<const char*>(buffer) - names_.data());
    return numbers;
  }

  std::array<char, 8> names_{};
  ReadOrder order_;
};

TEST_F(ReadOrderTest, KnowsNothingInTheFirstStep) {
  read({0, 1, 2});
  EXPECT_THAT(next(100), IsEmpty());
  EXPECT_EQ(order_.read_bytes(), units::Bytes(30));
}

TEST_F(ReadOrderTest, NextIsWhatTheStepBeforeReadAsFarAsThereIsRoom) {
  read({0, 1, 2, 2, 2, 1, 0});
  EXPECT_EQ(order_.read_bytes(), units::Bytes(50)) << "tasks of one layer read it once";
  order_.end_step();
  EXPECT_THAT(next(100), ElementsAre(0, 1, 2));
  read({0});
  EXPECT_THAT(next(20), ElementsAre(1, 2));
  EXPECT_THAT(next(29), ElementsAre(1, 2));
  EXPECT_THAT(next(100), ElementsAre(1, 2, 0)) << "each once, where it is read first";
  read({1, 2, 1});
  EXPECT_THAT(next(100), ElementsAre(0)) << "not beyond the step";
  read({0});
  EXPECT_THAT(next(100), IsEmpty());
}

TEST_F(ReadOrderTest, AStepThatReadsOtherwiseHasNoNext) {
  read({0, 1, 2});
  order_.end_step();
  read({0, 2});
  EXPECT_THAT(next(100), IsEmpty());
  // The one behind it is as this one.
  order_.end_step();
  read({0});
  EXPECT_THAT(next(100), ElementsAre(2));
}

TEST_F(ReadOrderTest, ALongerStepHasNoNext) {
  read({0, 1});
  order_.end_step();
  read({0, 1, 2});
  EXPECT_THAT(next(100), IsEmpty());
}

}  // namespace
}  // namespace dos::sched_starpu::read_order_test
