// SPDX-License-Identifier: Apache-2.0
// Checkpoints of which one system call fails, from begin() to the end of commit().
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <set>

#include "base/error.hpp"
#include "base/log.hpp"
#include "io/checkpoint_content.hpp"
#include "io/checkpoint_manifest.hpp"
#include "io/run_lock.hpp"
#include "scratch_directory.hpp"

namespace dos::io::failed_commit_test {
namespace {

namespace fs = std::filesystem;
using test::content;
using test::names_in;
using testing::UnorderedElementsAre;
using testing::UnorderedElementsAreArray;

struct NotTraced {};

/// What the child ends with: a sum.
constexpr int kFailed = 1;
constexpr int kNextFailed = 2;

/// From now on fsync() does nothing in this process, where the kernel allows that: nobody loses
/// power here, and hundreds of checkpoints are written.
void skip_flushes() {
  std::array<sock_filter, 4> filter{{BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                                     BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_fsync, 0, 1),
                                     BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO),
                                     BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)}};
  const sock_fprog program{.len = filter.size(), .filter = filter.data()};
  ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

/// Writes and commits a checkpoint, over the files of a removed one where it may.
void put(CheckpointStore& store, Index step, const std::string& text, bool is_best) {
  auto staging = store.begin(step);
  std::error_code ignored;
  fs::create_directory(staging.path() / "sub", ignored);
  for (const char* name : {"a", "b", "sub/c"}) {
    const storage::DirectFile file = staging.create(name, std::ssize(text));
    // What waits in memory is not written over later.
    const bool is_there =
        ::pwrite(file.buffered(), text.data(), text.size(), 0) == std::ssize(text) &&
        (step > 0 || ::fdatasync(file.buffered()) == 0);
    expect(is_there, "{}: cannot be written", name);
  }
  CheckpointManifest manifest;
  manifest.step = step;
  write_manifest(staging.path(), manifest);
  staging.commit(is_best);
}

bool is_put(CheckpointStore& store, Index step, const std::string& text, bool is_best) {
  try {
    put(store, step, text, is_best);
  } catch (const Error&) {
    return false;
  }
  return true;
}

/// Commits step 1, with the files of step 0 left for the next one, and stops; commits `step`,
/// stops, and commits step 3.
[[noreturn]] void commit_thrice(const fs::path& out, Index step, bool are_best) noexcept {
  log::configure("off");
  skip_flushes();
  int code = 0;
  {
    RunLock lock(out);
    CheckpointStore store(out);
    store.set_lock(&lock);
    store.recycle();
    put(store, 0, "two", /*is_best=*/true);
    put(store, 1, "old", /*is_best=*/true);
    ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    ::raise(SIGSTOP);
    if (!is_put(store, step, "new", are_best)) code += kFailed;
    ::raise(SIGSTOP);
    if (!is_put(store, 3, "next", are_best)) code += kNextFailed;
  }
  ::_exit(code);
}

#ifdef __x86_64__
constexpr bool kCanAlterCalls = true;

/// Of files and folders: what storage can fail.
bool is_of_files(unsigned long long number) {
  static const std::set<unsigned long long> calls{
      SYS_open,      SYS_openat,    SYS_mkdir,      SYS_mkdirat,   SYS_rename,     SYS_renameat,
      SYS_renameat2, SYS_symlink,   SYS_symlinkat,  SYS_link,      SYS_linkat,     SYS_unlink,
      SYS_unlinkat,  SYS_rmdir,     SYS_fsync,      SYS_fdatasync, SYS_readlink,   SYS_readlinkat,
      SYS_stat,      SYS_lstat,     SYS_newfstatat, SYS_statx,     SYS_getdents64, SYS_fstat,
      SYS_fallocate, SYS_ftruncate, SYS_fcntl,      SYS_fadvise64, SYS_mincore,    SYS_write,
      SYS_pwrite64,  SYS_read,      SYS_pread64,    SYS_close};
  return calls.contains(number);
}

/// The child is at the entry of a call: it comes back with the error, and nothing was done.
void fail_call(pid_t child, int error) {
  user_regs_struct registers{};
  ::ptrace(PTRACE_GETREGS, child, nullptr, &registers);
  registers.orig_rax = ~0ULL;
  ::ptrace(PTRACE_SETREGS, child, nullptr, &registers);
  int status = 0;
  ::ptrace(PTRACE_SYSCALL, child, nullptr, nullptr);
  ::waitpid(child, &status, 0);
  ::ptrace(PTRACE_GETREGS, child, nullptr, &registers);
  registers.rax = static_cast<unsigned long long>(-error);
  ::ptrace(PTRACE_SETREGS, child, nullptr, &registers);
}

bool is_call_of_files(pid_t child) {
  user_regs_struct registers{};
  ::ptrace(PTRACE_GETREGS, child, nullptr, &registers);
  return is_of_files(registers.orig_rax);
}
#else
constexpr bool kCanAlterCalls = false;
bool is_call_of_files(pid_t /*child*/) {
  return false;
}
void fail_call(pid_t /*child*/, int /*error*/) {}
#endif

int wait_for(pid_t child) {
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

/// Lets the child go on to its next SIGSTOP; its call number `call`, from 1 on, fails. False when
/// there were fewer.
bool go_on(pid_t child, int call, int error) {
  int calls = 0;
  for (bool enters = true;; enters = !enters) {
    ::ptrace(PTRACE_SYSCALL, child, nullptr, nullptr);
    const int status = wait_for(child);
    if (!WIFSTOPPED(status) || WSTOPSIG(status) == SIGSTOP) return false;
    if (enters && is_call_of_files(child) && ++calls == call) break;
  }
  fail_call(child, error);
  ::ptrace(PTRACE_CONT, child, nullptr, nullptr);
  wait_for(child);
  return true;
}

/// The checkpoint of `step` over a step 1, its call number `call` failing: nothing that can be
/// reached is torn, one that fails leaves nothing, and after the next one, in the same process,
/// there is no more than that. False when the checkpoint has fewer calls.
bool survives(Index step, bool are_best, int call, int error) {
  const test::ScratchDirectory scratch;
  const CheckpointStore store(scratch.path());
  const pid_t child = ::fork();
  if (child == 0) commit_thrice(scratch.path(), step, are_best);
  if (!WIFSTOPPED(wait_for(child))) throw NotTraced();
  const bool has_failed = go_on(child, call, error);
  const std::string last = content(store.resolve("last"));
  const std::string best = content(store.resolve("best"));
  for (const Index found : store.steps())
    EXPECT_NE(content(store.resolve(std::to_string(found))), "torn");
  EXPECT_NO_THROW(read_manifest(store.resolve("last")));
  std::vector<std::string> names = names_in(scratch / "checkpoints");
  std::erase_if(names, [](const std::string& name) { return name.ends_with(".discarded.tmp"); });
  ::ptrace(PTRACE_DETACH, child, nullptr, nullptr);
  const int status = wait_for(child);
  EXPECT_TRUE(WIFEXITED(status));
  const int code = WEXITSTATUS(status);
  const bool is_there = (code & kFailed) == 0;
  EXPECT_EQ(last, is_there ? "new" : "old");
  EXPECT_EQ(best, is_there && (are_best || step == 1) ? "new" : "old");
  if (!is_there && step != 1) {
    EXPECT_THAT(names, UnorderedElementsAre("step-00000001", "last", "best"));
  }
  EXPECT_EQ(code & kNextFailed, 0);
  EXPECT_EQ(content(store.resolve("last")), "next");
  std::vector<std::string> expected{"step-00000003", "last", "best"};
  if (!are_best) expected.emplace_back("step-00000001");
  EXPECT_THAT(names_in(scratch / "checkpoints"), UnorderedElementsAreArray(expected));
  EXPECT_EQ(content(store.resolve("best")), are_best ? "next" : best);
  return has_failed;
}

void survives_every_fault(Index step, bool are_best = true) {
  if (!kCanAlterCalls) GTEST_SKIP() << "calls are altered on x86-64 only";
  int call = 1;
  try {
    for (bool has_failed = true; has_failed && !testing::Test::HasFailure(); ++call) {
      const int error = call % 2 == 0 ? EIO : ENOSPC;
      const testing::ScopedTrace trace(__FILE__, __LINE__, fmt::format("call {}", call));
      has_failed = survives(step, are_best, call, error);
    }
  } catch (const NotTraced&) {
    GTEST_SKIP() << "the kernel does not let this process trace its child";
  }
  EXPECT_GT(call, 20) << "the checkpoint was hardly traced";
}

TEST(FailedCommit, OfANewStepLeavesNothing) {
  survives_every_fault(2);
}

TEST(FailedCommit, LeavesTheBest) {
  survives_every_fault(2, /*are_best=*/false);
}

TEST(FailedCommit, OfAnExistingStepLeavesTheOldOne) {
  survives_every_fault(1);
}

}  // namespace
}  // namespace dos::io::failed_commit_test
