// SPDX-License-Identifier: Apache-2.0
#include "rt/starpu_home.hpp"

#include <gmock/gmock.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <thread>
#include <vector>

#include "scratch_directory.hpp"

namespace dos::rt::starpu_home_test {
namespace {

namespace fs = std::filesystem;

/// The environment with a home of its own, in a place that nothing can be written to: below a file.
/// (The root user may write into folders that are read-only.)
class Home : public testing::Test {
 protected:
  Home() {
    for (const char* name : {"XDG_CACHE_HOME", "STARPU_PERF_MODEL_DIR", "STARPU_HOME"})
      environment.remove(name);
    std::ofstream(scratch / "file") << "x";
  }
  void set_home(const fs::path& home) { environment.set_default("STARPU_HOME", home.c_str()); }
  static fs::path used() { return std::getenv("STARPU_HOME"); }

  test::ScratchDirectory scratch;
  ScopedEnvironment environment;
};

TEST_F(Home, ThatCanBeWrittenStays) {
  set_home(scratch / "new");
  const StarpuHome home("", environment);
  EXPECT_EQ(used(), scratch / "new");
  EXPECT_TRUE(fs::is_directory(scratch / "new/.starpu/sampling/bus"));
  EXPECT_TRUE(fs::is_empty(scratch / "new/.starpu/sampling/bus"));
}

TEST_F(Home, BelowAFileIsReplacedForTheTime) {
  set_home(scratch / "file");
  fs::path replacement;
  {
    ScopedEnvironment inner;
    const StarpuHome home("", inner);
    replacement = used();
    EXPECT_NE(replacement, scratch / "file");
    EXPECT_EQ(obstacle_to_measurements(replacement / ".starpu/sampling"), "");
  }
  EXPECT_FALSE(fs::exists(replacement));
  EXPECT_EQ(used(), scratch / "file");
}

TEST_F(Home, WithAFileForAFolderIsReadAllTheSame) {
  fs::create_directories(scratch / ".starpu/sampling/bus");
  std::ofstream(scratch / ".starpu/sampling/bus/host.config") << "1";
  std::ofstream(scratch / ".starpu/sampling/codelets") << "x";
  set_home(scratch.path());
  const StarpuHome home("", environment);
  EXPECT_NE(used(), scratch.path());
}

TEST_F(Home, KeepsWhatWasMeasuredWhereItIsTold) {
  const fs::path kept = scratch / "out/starpu";
  set_home(scratch / "file");
  const auto measure = [&] {
    ScopedEnvironment inner;
    const StarpuHome home(kept, inner);
    std::ofstream(used() / ".starpu/sampling/bus/measured", std::ios::app) << "1";
  };
  measure();
  EXPECT_FALSE(fs::exists(scratch / "out"));
  fs::create_directory(scratch / "out");
  measure();
  EXPECT_EQ(fs::file_size(kept / "bus/measured"), 1U);
  measure();
  EXPECT_EQ(fs::file_size(kept / "bus/measured"), 2U);
}

TEST_F(Home, IsLookedAtByManyAtOnce) {
  fs::create_directories(scratch / "codelets/45");
  std::atomic<int> obstacles = 0;
  {
    std::vector<std::jthread> others(4);
    for (std::jthread& each : others)
      each = std::jthread([&] {
        for (int i = 0; i < 200; ++i)
          obstacles += !obstacle_to_measurements(scratch.path()).empty();
      });
  }
  EXPECT_EQ(obstacles, 0);
}

TEST_F(Home, OfALongPathIsNone) {
  EXPECT_THAT(obstacle_to_measurements(scratch / std::string(200, 'a')),
              testing::HasSubstr("more than 140 characters"));
  EXPECT_NE(obstacle_to_measurements(""), "");
  EXPECT_NE(obstacle_to_measurements("/proc/none"), "");
}

}  // namespace
}  // namespace dos::rt::starpu_home_test
