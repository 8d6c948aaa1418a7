// SPDX-License-Identifier: Apache-2.0
#include "rt/host_buffer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "rt/session.hpp"

namespace dos::rt::host_buffer_test {
namespace {

constexpr Index kPage = 4096;
/// Of buffers whose ends fill no huge page of 2 MiB.
constexpr Index kBytes = (Index{3} << 20) + 5 * kPage + 17;
constexpr Index kWholePages = (Index{3} << 20) + 6 * kPage;
constexpr Index kCount = 16;

class HostBufferTest : public testing::Test {
 protected:
  static std::vector<HostBuffer> make(Index bytes, HostBuffer::Pages pages) {
    std::vector<HostBuffer> buffers;
    for (Index i = 0; i < kCount; ++i) buffers.emplace_back(bytes, pages);
    return buffers;
  }
  /// How many lie right before the one that was made before them.
  static Index in_line(const std::vector<HostBuffer>& buffers, Index bytes) {
    Index found = 0;
    for (std::size_t i = 1; i < buffers.size(); ++i)
      found += buffers[i].data() + bytes == buffers[i - 1].data() ? 1 : 0;
    return found;
  }
  static std::span<std::byte> bytes_of(const HostBuffer& buffer) {
    return {buffer.data(), static_cast<std::size_t>(kBytes)};
  }

  Session session_{{.scheduler = "", .cpu_workers = 1}};
};

TEST_F(HostBufferTest, BuffersLieInLineWhereNothingIsInTheirWay) {
  // Other mappings of the process may lie between some of them.
  EXPECT_GE(in_line(make(kBytes, HostBuffer::Pages::kPinned), kWholePages), kCount / 2);
  EXPECT_GE(in_line(make(Index{64} << 10, HostBuffer::Pages::kPinned), Index{64} << 10),
            kCount / 2);
  // What nobody writes is not to be taken with a neighbour's huge page.
  EXPECT_EQ(in_line(make(kBytes, HostBuffer::Pages::kOnDemand), kWholePages), 0);
}

TEST_F(HostBufferTest, BuffersBeginAtPagesAndAreZero) {
  for (const Index bytes : {Index{0}, Index{1}, kPage, kPage + 1, kBytes}) {
    const HostBuffer buffer(bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % kPage, 0U);
    const std::span<std::byte> all(buffer.data(), static_cast<std::size_t>(bytes));
    EXPECT_TRUE(std::ranges::all_of(all, [](std::byte b) { return b == std::byte{0}; }));
    std::ranges::fill(all, std::byte{7});
  }
}

TEST_F(HostBufferTest, ABufferGoesAloneAndItsPlaceIsZeroAgain) {
  std::vector<HostBuffer> buffers = make(kBytes, HostBuffer::Pages::kPinned);
  for (const HostBuffer& buffer : buffers) std::ranges::fill(bytes_of(buffer), std::byte{7});
  std::vector<HostBuffer> kept;
  for (std::size_t i = 0; i < buffers.size(); i += 2) kept.push_back(std::move(buffers[i]));
  buffers.clear();
  for (const HostBuffer& buffer : make(kBytes, HostBuffer::Pages::kPinned))
    EXPECT_EQ(std::ranges::count(bytes_of(buffer), std::byte{0}), kBytes);
  for (const HostBuffer& buffer : kept)
    EXPECT_EQ(std::ranges::count(bytes_of(buffer), std::byte{7}), kBytes);
}

}  // namespace
}  // namespace dos::rt::host_buffer_test
