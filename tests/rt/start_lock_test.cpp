// SPDX-License-Identifier: Apache-2.0
#include "rt/start_lock.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <future>
#include <optional>

#include "scratch_directory.hpp"

namespace dos::rt::start_lock_test {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kNotAtAll{0};

TEST(StartLock, OneAfterTheOther) {
  const test::ScratchDirectory folder;
  const auto file = folder.path() / "new" / "lock";
  std::optional<StartLock> first(std::in_place, file, kNotAtAll);
  EXPECT_TRUE(first->is_held());
  EXPECT_FALSE(StartLock(file, kNotAtAll).is_held());
  auto waiting = std::async([&] { return StartLock(file).is_held(); });
  first.reset();
  EXPECT_TRUE(waiting.get());
}

TEST(StartLock, AProcessThatDiesLetsGo) {
  const test::ScratchDirectory folder;
  const auto file = folder.path() / "lock";
  const pid_t child = ::fork();
  if (child == 0) {
    const StartLock lock(file, kNotAtAll);
    ::_exit(lock.is_held() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(StartLock(file, kNotAtAll).is_held());
}

TEST(StartLock, WhereThereIsNoPlaceForItNobodyWaits) {
  const test::ScratchDirectory folder;
  std::ofstream(folder.path() / "file") << "no folder";
  EXPECT_FALSE(StartLock(folder.path() / "file" / "lock").is_held());
}

TEST(StartLock, OneOfEachMachineInStarpusHome) {
  ASSERT_EQ(::setenv("STARPU_HOME", "/home/of/starpu", 1), 0);
  const auto file = StartLock::default_file();
  EXPECT_EQ(file.parent_path(), "/home/of/starpu/.starpu");
  EXPECT_GT(file.filename().string().size(), std::string("dos-.lock").size());
}

}  // namespace
}  // namespace dos::rt::start_lock_test
