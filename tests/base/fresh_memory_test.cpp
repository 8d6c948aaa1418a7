// SPDX-License-Identifier: Apache-2.0
#include "base/fresh_memory.hpp"

#include <gmock/gmock.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <numeric>
#include <span>
#include <thread>
#include <vector>

namespace dos::fresh_memory_test {
namespace {

using Bytes = std::span<std::byte>;

/// Pages that nothing has touched.
class FreshMemoryTest : public testing::Test {
 protected:
  FreshMemoryTest() : page_(static_cast<std::size_t>(::sysconf(_SC_PAGESIZE))) {
    void* const data = ::mmap(nullptr, kPages * page_, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    EXPECT_NE(data, MAP_FAILED);
    memory_ = {static_cast<std::byte*>(data), kPages * page_};
    ::madvise(data, memory_.size(), MADV_NOHUGEPAGE);
  }
  FreshMemoryTest(const FreshMemoryTest&) = delete;
  FreshMemoryTest& operator=(const FreshMemoryTest&) = delete;
  ~FreshMemoryTest() override { ::munmap(memory_.data(), memory_.size()); }

  void SetUp() override {
    constexpr int kPopulateWrite = 23;
    std::byte* const last = memory_.data() + memory_.size() - page_;
    if (::madvise(last, page_, kPopulateWrite) != 0 && errno == EINVAL)
      GTEST_SKIP() << "this kernel finds no pages ahead (Linux 5.14 does)";
    ::madvise(last, page_, MADV_DONTNEED);
  }

  /// Numbers of the pages that are there.
  [[nodiscard]] std::vector<std::size_t> there() const {
    std::vector<unsigned char> is_there(kPages);
    EXPECT_EQ(::mincore(memory_.data(), memory_.size(), is_there.data()), 0);
    std::vector<std::size_t> numbers;
    for (std::size_t i = 0; i < kPages; ++i)
      if ((is_there[i] & 1U) != 0) numbers.push_back(i);
    return numbers;
  }
  static std::vector<std::size_t> from_to(std::size_t first, std::size_t last) {
    std::vector<std::size_t> numbers(last - first + 1);
    std::iota(numbers.begin(), numbers.end(), first);
    return numbers;
  }

  static constexpr std::size_t kPages = 2048;
  std::size_t page_;
  Bytes memory_;
};

TEST_F(FreshMemoryTest, IsThereAfterwards) {
  FreshMemory fresh({memory_});
  EXPECT_THAT(there(), testing::IsEmpty());
  while (fresh.find_pages()) {
  }
  EXPECT_EQ(there(), from_to(0, kPages - 1));
  EXPECT_FALSE(fresh.find_pages());
}

TEST_F(FreshMemoryTest, KeepsWhatItHolds) {
  memory_[5 * page_ + 7] = std::byte{42};
  FreshMemory fresh({memory_});
  while (fresh.find_pages()) {
  }
  EXPECT_EQ(memory_[5 * page_ + 7], std::byte{42});
  EXPECT_EQ(std::ranges::count(memory_, std::byte{0}), std::ssize(memory_) - 1);
}

// Neither pages outside nor those of which a part only is given.
TEST_F(FreshMemoryTest, LeavesTheRestAlone) {
  FreshMemory fresh({memory_.subspan(3 * page_ + 1, 900 * page_),
                     {},
                     memory_.subspan(1000 * page_, 2 * page_),
                     memory_.subspan(1500 * page_ + 1, page_ / 2)});
  while (fresh.find_pages()) {
  }
  std::vector<std::size_t> expected = from_to(4, 902);
  expected.insert(expected.end(), {1000, 1001});
  EXPECT_EQ(there(), expected);
}

TEST_F(FreshMemoryTest, IsFoundByManyThreads) {
  FreshMemory fresh({memory_});
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([&] {
        while (fresh.find_pages()) {
        }
      });
  }
  EXPECT_EQ(there(), from_to(0, kPages - 1));
}

// Of memory that is not there, nothing is asked a second time.
TEST_F(FreshMemoryTest, GivesUpWhereTheSystemCannot) {
  ASSERT_EQ(::mprotect(memory_.data(), memory_.size(), PROT_READ), 0);
  FreshMemory fresh({memory_});
  EXPECT_FALSE(fresh.find_pages());
  ASSERT_EQ(::mprotect(memory_.data(), memory_.size(), PROT_READ | PROT_WRITE), 0);
  EXPECT_FALSE(fresh.find_pages());
  EXPECT_THAT(there(), testing::IsEmpty());
}

}  // namespace
}  // namespace dos::fresh_memory_test
