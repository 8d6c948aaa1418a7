// SPDX-License-Identifier: Apache-2.0
#include "io/weight_file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <vector>

#include "base/file.hpp"
#include "scratch_directory.hpp"

namespace dos::io::weight_file_test {
namespace {

/// A file of 3 MiB and a bit, on the device.
class WeightFileTest : public testing::Test {
 protected:
  WeightFileTest() {
    for (std::size_t i = 0; i < bytes_.size(); ++i) bytes_[i] = std::byte(i * 37 % 251);
    DurableFile file(path_);
    file.write(bytes_);
    file.commit();
  }

  static void forget(const WeightFile& file) {
    ASSERT_EQ(::posix_fadvise(file.input().descriptor(), 0, 0, POSIX_FADV_DONTNEED), 0);
  }
  [[nodiscard]] bool has(std::span<const std::byte> found, Index offset) const {
    return std::ranges::equal(
        found, std::span(bytes_).subspan(static_cast<std::size_t>(offset), found.size()));
  }

  test::ScratchDirectory scratch_;
  std::filesystem::path path_ = scratch_ / "weights";
  std::vector<std::byte> bytes_{(std::size_t{3} << 20) + 123};
};

TEST_F(WeightFileTest, ReadsAnyBytesPastThePageCache) {
  const WeightFile file(path_);
  ReadBuffer buffer;
  const Index size = std::ssize(bytes_);
  for (const Index offset : {Index{0}, Index{1}, Index{4095}, Index{4096}, Index{1'000'001}})
    for (const Index bytes : {Index{1}, Index{4096}, Index{5000}, ReadBuffer::kBytes}) {
      const auto found = file.read_direct(offset, bytes, buffer);
      EXPECT_EQ(std::ssize(found), bytes);
      EXPECT_TRUE(has(found, offset)) << offset << " " << bytes;
    }
  // The end lies inside a unit of the device.
  const auto last = file.read_direct(size - 10, 10, buffer);
  EXPECT_EQ(last.size(), 10U);
  EXPECT_TRUE(has(last, size - 10));
  EXPECT_EQ(file.read_direct(size - 10, 20, buffer).size(), 10U);
  EXPECT_TRUE(file.read_direct(size + 5000, 20, buffer).empty());
}

TEST_F(WeightFileTest, PrefersThePageCacheForWhatIsThere) {
  const WeightFile file(path_);
  std::vector<std::byte> all(bytes_.size());
  EXPECT_EQ(file.input().read(0, all), std::ssize(bytes_));
  EXPECT_FALSE(file.prefers_direct(0, std::ssize(bytes_)));
  EXPECT_FALSE(file.prefers_direct(std::ssize(bytes_) + 5000, 10)) << "nothing to read";
  forget(file);
  if (!file.prefers_direct(0, std::ssize(bytes_)))
    GTEST_SKIP() << "a file system without O_DIRECT, or one that keeps its pages";
  ReadBuffer buffer;
  EXPECT_TRUE(has(file.read_direct(0, ReadBuffer::kBytes, buffer), 0));
  EXPECT_TRUE(file.prefers_direct(0, std::ssize(bytes_))) << "the page cache has none of it";
}

}  // namespace
}  // namespace dos::io::weight_file_test
