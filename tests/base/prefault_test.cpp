// SPDX-License-Identifier: Apache-2.0
#include "base/prefault.hpp"

#include <gmock/gmock.h>
#include <sys/mman.h>

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <numeric>
#include <span>
#include <vector>

namespace dos::prefault_test {
namespace {

using Bytes = std::span<std::byte>;

constexpr std::size_t kPieces = 40;
constexpr std::size_t kBytes = 1 << 20;

/// Pieces of memory that nothing has touched.
class PrefaultTest : public testing::Test {
 protected:
  PrefaultTest() {
    void* const data = ::mmap(nullptr, kPieces * kBytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    EXPECT_NE(data, MAP_FAILED);
    memory_ = {static_cast<std::byte*>(data), kPieces * kBytes};
    for (std::size_t i = 0; i < kPieces; ++i)
      pieces_.push_back(memory_.subspan(i * kBytes, kBytes));
  }
  PrefaultTest(const PrefaultTest&) = delete;
  PrefaultTest& operator=(const PrefaultTest&) = delete;
  ~PrefaultTest() override { ::munmap(memory_.data(), memory_.size()); }

  Bytes memory_;
  std::vector<Bytes> pieces_;
};

TEST_F(PrefaultTest, TellsOfEachPieceOnce) {
  memory_[3 * kBytes + 5] = std::byte{42};
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::size_t> found;
  {
    const Prefault prefault(pieces_, [&](std::size_t i) {
      const std::lock_guard lock(mutex);
      found.push_back(i);
      changed.notify_all();
    });
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return found.size() == kPieces; });
  }
  std::vector<std::size_t> all(kPieces);
  std::iota(all.begin(), all.end(), std::size_t{0});
  EXPECT_THAT(found, testing::UnorderedElementsAreArray(all));
  EXPECT_EQ(memory_[3 * kBytes + 5], std::byte{42});
  EXPECT_EQ(std::ranges::count(memory_, std::byte{0}), std::ssize(memory_) - 1);
}

TEST_F(PrefaultTest, TakesNoMemoryAtAll) {
  const Prefault prefault({}, [](std::size_t) { ADD_FAILURE(); });
}

}  // namespace
}  // namespace dos::prefault_test
