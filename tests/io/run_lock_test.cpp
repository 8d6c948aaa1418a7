// SPDX-License-Identifier: Apache-2.0
#include "io/run_lock.hpp"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <functional>

#include "base/error.hpp"
#include "base/file.hpp"
#include "scratch_directory.hpp"

namespace dos::io::run_lock_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

using Take = std::function<RunLock(const std::filesystem::path&)>;

const Take kWays[] = {[](const auto& folder) { return RunLock(folder); },
                      [](const auto& folder) { return RunLock::by_file_alone(folder); }};

/// The status of a child process that runs `work` and ends without a word, as a killed one does.
int in_child(const std::function<int()>& work) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(work());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WEXITSTATUS(status);
}

TEST(RunLock, NamesItsHolderToASecondOne) {
  for (const Take& take : kWays) {
    const test::ScratchDirectory scratch;
    const RunLock lock = take(scratch.path());
    EXPECT_THAT(
        [&] { take(scratch.path()); },
        ThrowsMessage<Error>(AllOf(HasSubstr(scratch.path().string() + " is in use by process " +
                                             std::to_string(::getpid()) + " on "),
                                   HasSubstr("choose another --out"), HasSubstr("run.lock"))));
    const int refused = in_child([&] {
      try {
        static_cast<void>(take(scratch.path()));
        return 0;
      } catch (const Error&) {
        return 7;
      }
    });
    EXPECT_EQ(refused, 7);
  }
}

TEST(RunLock, KeepsAFolderThatIsMadeAnew) {
  for (const Take& take : kWays) {
    const test::ScratchDirectory scratch;
    const std::filesystem::path folder = scratch.path() / "run";
    std::filesystem::create_directory(folder);
    RunLock lock = take(folder);
    lock.keep();
    std::filesystem::remove(folder / kLockName);
    lock.keep();
    EXPECT_THROW(take(folder), Error);
    std::filesystem::rename(folder, scratch.path() / "moved");
    std::filesystem::create_directory(folder);
    lock.keep();
    EXPECT_THROW(take(folder), Error);
    EXPECT_THROW(take(scratch.path() / "moved"), Error);
  }
}

TEST(RunLock, LeavesAFolderToTheRunThatTookItsName) {
  for (const Take& take : kWays) {
    const test::ScratchDirectory scratch;
    const std::filesystem::path folder = scratch.path() / "run";
    std::filesystem::create_directory(folder);
    RunLock lock = take(folder);
    std::filesystem::remove_all(folder);
    std::filesystem::create_directory(folder);
    {
      const RunLock other = take(folder);
      EXPECT_THAT([&] { lock.keep(); },
                  ThrowsMessage<Error>(
                      AllOf(HasSubstr("was removed or moved"), HasSubstr("is in use by process"))));
      std::ofstream(folder / "run.json") << "{}";
    }
    // It has ended; its folder stays its own.
    EXPECT_THAT([&] { lock.keep(); }, ThrowsMessage<Error>(HasSubstr("another run")));
  }
}

TEST(RunLock, OthersSeeWhetherAFolderIsHeld) {
  const test::ScratchDirectory scratch;
  EXPECT_FALSE(is_locked(scratch.path()));
  EXPECT_FALSE(is_locked(scratch.path() / "none"));
  {
    const RunLock lock(scratch.path());
    EXPECT_TRUE(is_locked(scratch.path()));
    EXPECT_EQ(in_child([&] { return is_locked(scratch.path()) ? 7 : 0; }), 7);
  }
  EXPECT_FALSE(is_locked(scratch.path()));
  // Left by one that was killed.
  in_child([&]() -> int {
    const RunLock lock(scratch.path());
    ::_exit(0);
  });
  ASSERT_TRUE(std::filesystem::exists(scratch.path() / kLockName));
  EXPECT_FALSE(is_locked(scratch.path()));
}

TEST(RunLock, LeavesNothingBehind) {
  for (const Take& take : kWays) {
    const test::ScratchDirectory scratch;
    { const RunLock lock = take(scratch.path()); }
    EXPECT_TRUE(std::filesystem::is_empty(scratch.path()));
    const RunLock again = take(scratch.path());
  }
}

TEST(RunLock, IsTakenOverFromAProcessThatWasKilled) {
  for (const Take& take : kWays) {
    const test::ScratchDirectory scratch;
    EXPECT_EQ(in_child([&] {
                static RunLock lock = take(scratch.path());
                return 0;
              }),
              0);
    EXPECT_FALSE(std::filesystem::is_empty(scratch.path()));
    const RunLock lock = take(scratch.path());
    EXPECT_THAT(read_text(scratch / "run.lock"), HasSubstr(std::to_string(::getpid())));
  }
}

TEST(RunLock, AnotherProcessOfTheSameNumberIsAnother) {
  const test::ScratchDirectory scratch;
  {
    // This process, as one that started at another time would have left it.
    const RunLock lock = RunLock::by_file_alone(scratch.path());
    std::filesystem::copy_file(scratch / "run.lock", scratch / "copy");
  }
  std::string text = read_text(scratch / "copy");
  const std::size_t start = text.find(' ', text.find(' ') + 1) + 1;
  text.replace(start, text.find(' ', start) - start, "1");
  std::ofstream(scratch / "run.lock") << text;
  const RunLock lock = RunLock::by_file_alone(scratch.path());
}

TEST(RunLock, OnAnotherHostTheFileIsNotJudged) {
  const test::ScratchDirectory scratch;
  std::ofstream(scratch / "run.lock") << "elsewhere 12 34 2026-01-02T03:04:05+0000\n";
  EXPECT_THAT([&] { RunLock::by_file_alone(scratch.path()); },
              ThrowsMessage<Error>(AllOf(HasSubstr("process 12 on elsewhere, since 2026-01-02"),
                                         HasSubstr("is gone for certain, delete"))));
  // A lock of the system ends with its holder, wherever that was.
  const RunLock lock(scratch.path());
}

TEST(RunLock, WritesThroughNoLinkAndNamesWhatFails) {
  const test::ScratchDirectory scratch;
  write_durably(scratch / "target", "precious");
  std::filesystem::create_symlink("target", scratch / "run.lock");
  for (const Take& take : kWays) {
    EXPECT_THAT([&] { take(scratch.path()); },
                ThrowsMessage<Error>(HasSubstr("run.lock: cannot create, a symbolic link")));
    EXPECT_THAT([&] { take(scratch / "none"); },
                ThrowsMessage<Error>(HasSubstr("none/run.lock: cannot create")));
  }
  EXPECT_EQ(read_text(scratch / "target"), "precious");
}

}  // namespace
}  // namespace dos::io::run_lock_test
