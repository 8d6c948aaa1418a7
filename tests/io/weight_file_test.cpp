// SPDX-License-Identifier: Apache-2.0
#include "io/weight_file.hpp"

#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <vector>

#include "base/file.hpp"
#include "page_cache.hpp"
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

  [[nodiscard]] bool has(std::span<const std::byte> found, Index offset) const {
    return std::ranges::equal(
        found, std::span(bytes_).subspan(static_cast<std::size_t>(offset), found.size()));
  }

  test::ScratchDirectory scratch_;
  std::filesystem::path path_ = scratch_ / "weights";
  std::vector<std::byte> bytes_{(std::size_t{3} << 20) + 123};
};

TEST_F(WeightFileTest, ReadsAnyBytesPastThePageCache) {
  storage::Engine engine;
  const WeightFile file(path_);
  constexpr Index kMost = Index{1} << 20;
  ReadBuffer buffer(kMost);
  for (const Index offset : {Index{0}, Index{1}, Index{4095}, Index{4096}, Index{1'000'001}})
    for (const Index bytes : {Index{1}, Index{4096}, Index{5000}, kMost}) {
      file.begin(offset, bytes, buffer, engine);
      const auto found = buffer.bytes(offset, bytes);
      EXPECT_EQ(std::ssize(found), bytes);
      EXPECT_TRUE(has(found, offset)) << offset << " " << bytes;
      EXPECT_TRUE(has(buffer.bytes(offset + bytes / 2, bytes - bytes / 2), offset + bytes / 2));
      buffer.forget();
    }
}

TEST_F(WeightFileTest, EndsWhereTheFileEnds) {
  storage::Engine engine;
  const WeightFile file(path_);
  const Index size = std::ssize(bytes_);
  ReadBuffer buffer(Index{1} << 20);
  // The end lies inside a unit of the device.
  for (const Index bytes : {Index{10}, Index{100'000}}) {
    file.begin(size - bytes, bytes, buffer, engine);
    EXPECT_TRUE(has(buffer.bytes(size - bytes, bytes), size - bytes));
    EXPECT_EQ(buffer.fault(), "");
    buffer.forget();
    file.begin(size - bytes, bytes + 10, buffer, engine);
    EXPECT_THAT(buffer.fault(), testing::AllOf(testing::HasSubstr(path_.string()),
                                               testing::HasSubstr("ends before byte")));
    buffer.forget();
  }
}

TEST_F(WeightFileTest, WaitsForWhatNobodyTakes) {
  storage::Engine engine;
  const WeightFile file(path_);
  ReadBuffer buffer(std::ssize(bytes_));
  file.begin(0, std::ssize(bytes_), buffer, engine);
}

/// As of a folder of models that many read: Linux tells others nothing of their pages.
TEST_F(WeightFileTest, KnowsWhatIsAwayOfAnothersFile) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to be another";
  std::filesystem::permissions(scratch_.path(), std::filesystem::perms(0755));
  std::filesystem::permissions(path_, std::filesystem::perms(0644));
  constexpr uid_t kNobody = 65534;
  ASSERT_EQ(::seteuid(kNobody), 0);
  const WeightFile file(path_);
  std::vector<std::byte> all(bytes_.size());
  EXPECT_EQ(file.input().read(0, all), std::ssize(bytes_));
  EXPECT_FALSE(file.is_away(0, std::ssize(bytes_)));
  ASSERT_EQ(::seteuid(0), 0);
  test::leave_page_cache(path_);
  const bool leaves = file.is_away(0, std::ssize(bytes_));
  ASSERT_EQ(::seteuid(kNobody), 0);
  const bool is_away = file.is_away(0, std::ssize(bytes_));
  ASSERT_EQ(::seteuid(0), 0);
  EXPECT_EQ(is_away, leaves);
}

TEST_F(WeightFileTest, LeavesToThePageCacheWhatIsThere) {
  const WeightFile file(path_);
  std::vector<std::byte> all(bytes_.size());
  EXPECT_EQ(file.input().read(0, all), std::ssize(bytes_));
  EXPECT_FALSE(file.is_away(0, std::ssize(bytes_)));
  EXPECT_FALSE(file.is_away(std::ssize(bytes_) + 5000, 10)) << "nothing to read";
  test::leave_page_cache(path_);
  if (!file.is_away(0, std::ssize(bytes_))) GTEST_SKIP() << "a file system that keeps its pages";
  if (!storage::DirectFile::open(path_).is_direct())
    GTEST_SKIP() << "a file system without direct transfers";
  storage::Engine engine;
  ReadBuffer buffer(Index{1} << 20);
  file.begin(0, Index{1} << 20, buffer, engine);
  EXPECT_TRUE(has(buffer.bytes(0, Index{1} << 20), 0));
  EXPECT_TRUE(file.is_away(0, std::ssize(bytes_))) << "the page cache has none of it";
}

}  // namespace
}  // namespace dos::io::weight_file_test
