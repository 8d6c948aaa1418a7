// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "base/error.hpp"

namespace dos::test {

/// In a child process: what `begin` returns is called, and traced from there on.
template <class Begin>
[[noreturn]] void call_traced(const Begin& begin) noexcept {
  const auto rest = begin();
  if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) ::_exit(2);
  ::raise(SIGSTOP);
  rest();
  ::_exit(0);
}

/// Calls what begin() returns in a child process that is killed before its system call number
/// `calls`. Returns false when it ended before that. Throws Error where tracing is not permitted.
template <class Begin>
bool is_killed_at_call(const Begin& begin, int calls) {
  const pid_t child = ::fork();
  if (child == 0) call_traced(begin);
  int status = 0;
  ::waitpid(child, &status, 0);
  expect(WIFSTOPPED(status), "the kernel does not let this process trace its child");
  for (int stop = 0; WIFSTOPPED(status) && stop < 2 * calls - 1; ++stop) {  // entry and return
    ::ptrace(PTRACE_SYSCALL, child, nullptr, nullptr);
    ::waitpid(child, &status, 0);
  }
  if (!WIFSTOPPED(status)) {
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return false;
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, &status, 0);
  return true;
}

}  // namespace dos::test
