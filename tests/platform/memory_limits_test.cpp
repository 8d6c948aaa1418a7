// SPDX-License-Identifier: Apache-2.0
#include "platform/memory_limits.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <filesystem>
#include <fstream>
#include <limits>

#include "base/sanitizer.hpp"
#include "platform/topology.hpp"
#include "scratch_directory.hpp"

namespace dos::platform::memory_limits_test {
namespace {

constexpr Index kUnlimited = std::numeric_limits<Index>::max();

/// Control groups in a folder that stands for /sys/fs/cgroup.
class ControlGroups : public testing::Test {
 protected:
  void put(const std::string& file, const std::string& text) const {
    const std::filesystem::path path = scratch / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text << '\n';
  }
  void put_v2(const std::string& group, const std::string& limit, Index used) const {
    put(group + "/memory.max", limit);
    put(group + "/memory.current", std::to_string(used));
  }
  [[nodiscard]] MemoryLeft left(const std::string& own) const {
    put("own", own);
    return left_by_control_groups(scratch / "own", scratch.path());
  }
  test::ScratchDirectory scratch;
};

TEST_F(ControlGroups, NoneLeaveEverything) {
  EXPECT_EQ(left("0::/").bytes, kUnlimited);
  EXPECT_EQ(left("").bytes, kUnlimited);
  EXPECT_EQ(left("damaged").bytes, kUnlimited);
  put_v2("a", "max", 10);
  EXPECT_EQ(left("0::/a").bytes, kUnlimited);
  EXPECT_EQ(left("0::/a").limited_by, "");
}

TEST_F(ControlGroups, TheInnermostAndThoseAroundIt) {
  put_v2("a", "1000", 400);
  put_v2("a/b", "900", 100);
  put_v2("a/b/c", "max", 50);
  EXPECT_EQ(left("0::/a/b/c").bytes, 600);
  EXPECT_EQ(left("0::/a/b/c").limited_by, scratch / "a");
  put_v2("a/b", "300", 100);
  EXPECT_EQ(left("0::/a/b/c").bytes, 200);
  EXPECT_EQ(left("0::/a/b/c").limited_by, scratch / "a/b");
  put_v2("a/b/c", "10", 50);
  EXPECT_EQ(left("0::/a/b/c").bytes, 0);
}

TEST_F(ControlGroups, AboveHighAGroupStandsStill) {
  put_v2("a", "1000", 400);
  put("a/memory.high", "700");
  EXPECT_EQ(left("0::/a").bytes, 300);
  put("a/memory.high", "max");
  EXPECT_EQ(left("0::/a").bytes, 600);
}

TEST_F(ControlGroups, CachedFilesCanBeGivenBack) {
  put_v2("a", "1000", 400);
  put("a/memory.stat", "anon 100\nfile 300\nactive_file 50\ninactive_file 250\n");
  EXPECT_EQ(left("0::/a").bytes, 850);
}

TEST_F(ControlGroups, VersionOne) {
  put("memory/a/memory.limit_in_bytes", "1000");
  put("memory/a/memory.usage_in_bytes", "400");
  put("memory/a/memory.stat", "inactive_file 1\ntotal_inactive_file 100\n");
  EXPECT_EQ(left("5:cpu:/x\n4:memory:/a\n0::/").bytes, 700);
  put("memory/a/memory.memsw.limit_in_bytes", "950");
  EXPECT_EQ(left("4:memory:/a").bytes, 650);
}

TEST_F(ControlGroups, OfAContainerThatSeesOnlyItsOwn) {
  put("memory/memory.limit_in_bytes", "1000");
  put("memory/memory.usage_in_bytes", "400");
  EXPECT_EQ(left("4:memory:/docker/0123").bytes, 600);
}

TEST(MemoryLeft, IsAPartOfTheMachines) {
  const MemoryLeft left = memory_left();
  EXPECT_GT(left.bytes, 0);
  EXPECT_LE(left.bytes, physical_memory_bytes());
}

/// Sets a resource limit for the duration of a scope.
class Limit {
 public:
  Limit(__rlimit_resource resource, Index bytes) : resource_(resource) {
    getrlimit(resource_, &before_);
    const rlimit limit{.rlim_cur = static_cast<rlim_t>(bytes), .rlim_max = before_.rlim_max};
    setrlimit(resource_, &limit);
  }
  Limit(const Limit&) = delete;
  Limit& operator=(const Limit&) = delete;
  ~Limit() { setrlimit(resource_, &before_); }

 private:
  __rlimit_resource resource_;
  rlimit before_{};
};

TEST(MemoryLeft, KnowsResourceLimits) {
  if (kIsSanitized) GTEST_SKIP() << "sanitizers take terabytes of address space";
  constexpr Index kGiB = Index{1} << 30;
  {
    const Limit limit(RLIMIT_AS, kGiB);
    const MemoryLeft left = memory_left();
    EXPECT_EQ(left.limited_by, "ulimit -v");
    EXPECT_LT(left.bytes, kGiB);
    EXPECT_GT(left.bytes, 0);
    EXPECT_LE(memory_left(/*mappings=*/1 << 20).bytes, left.bytes - (1 << 20));
    EXPECT_EQ(memory_left(/*mappings=*/2 * kGiB).bytes, 0);
  }
  const Limit limit(RLIMIT_DATA, kGiB);
  EXPECT_EQ(memory_left().limited_by, "ulimit -d");
  EXPECT_LT(memory_left().bytes, kGiB);
}

}  // namespace
}  // namespace dos::platform::memory_limits_test
