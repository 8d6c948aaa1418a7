// SPDX-License-Identifier: Apache-2.0
// What a process says of a system that does not have what storage would take first.
#include "storage/fallback.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <functional>
#include <string>

#include "base/error.hpp"
#include "message_of.hpp"
#include "scratch_directory.hpp"
#include "storage/backend.hpp"
#include "storage/direct_file.hpp"

namespace dos::storage::fallback_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

/// From now on a call gives an error to this process where it has one of `bits` in an argument.
/// False: the kernel forbids it.
bool refuse(unsigned call, unsigned error, unsigned argument = 0, unsigned bits = ~0U) {
  const auto place = static_cast<unsigned>(offsetof(seccomp_data, args) + 8 * argument);
  std::array<sock_filter, 6> filter{{BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                                     BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 3),
                                     BPF_STMT(BPF_LD | BPF_W | BPF_ABS, place),
                                     BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, 0, 1),
                                     BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
                                     BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)}};
  const sock_fprog program{.len = filter.size(), .filter = filter.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/// What a child process says that ends well, with lines of a level.
std::string words_of(const std::function<bool()>& action, const char* shown = "info") {
  std::array<int, 2> ends{};
  expect(::pipe(ends.data()) == 0, "a pipe");
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(ends[1], STDERR_FILENO);
    log::configure(shown);
    ::_exit(action() ? 0 : 1);
  }
  ::close(ends[1]);
  std::string words;
  std::array<char, 4096> piece{};
  ssize_t count = 0;
  while ((count = ::read(ends[0], piece.data(), piece.size())) > 0)
    words.append(piece.data(), static_cast<std::size_t>(count));
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  return words;
}

bool has_threads_without_a_ring() {
  return refuse(__NR_io_uring_setup, EPERM) && make_backend()->name() == std::string("threads") &&
         make_backend()->name() == std::string("threads");
}

TEST(Fallback, ToThreadsIsSaidOnceWithItsCause) {
  const std::string words = words_of(has_threads_without_a_ring);
  const std::string line =
      "io_uring is not to be had here (Operation not permitted): threads read and write files";
  EXPECT_THAT(words, HasSubstr(line));
  EXPECT_EQ(words.find(line), words.rfind(line));
}

// 64 ranks need not say it 64 times.
TEST(Fallback, IsSaidAtTheLevelOfTheProcess) {
  const auto as_another_rank = [] {
    say_fallbacks_at(log::Level::kDebug);
    return has_threads_without_a_ring();
  };
  EXPECT_EQ(words_of(as_another_rank), "");
  EXPECT_THAT(words_of(as_another_rank, "debug"), HasSubstr("io_uring is not to be had here"));
}

// One of each node does, which says who it is.
TEST(Fallback, IsSaidByTheRank) {
  const auto as_rank = [] {
    say_fallbacks_at(log::Level::kInfo, "rank 4: ");
    return has_threads_without_a_ring();
  };
  EXPECT_THAT(words_of(as_rank), HasSubstr(" rank 4: io_uring is not to be had here"));
}

class DirectFallback : public testing::Test {
 protected:
  /// What is said where a file cannot be opened for direct transfers.
  std::string words_without_direct(unsigned error) {
    return words_of([&] {
      if (!refuse(__NR_openat, error, 2, O_DIRECT)) return false;
      const std::string words = test::message_of<Error>([&] {
        if (DirectFile::create(scratch_ / "file", 8192).is_direct()) fail("is direct");
      });
      return ::write(STDERR_FILENO, words.data(), words.size()) == std::ssize(words);
    });
  }

  test::ScratchDirectory scratch_;
};

TEST_F(DirectFallback, IsTheFileSystemsWhereTheCallIsInvalid) {
  EXPECT_THAT(words_without_direct(EINVAL), HasSubstr("has no direct transfers"));
}

TEST_F(DirectFallback, NamesAnotherCause) {
  EXPECT_THAT(words_without_direct(EACCES),
              AllOf(HasSubstr("(O_DIRECT): Permission denied: the page cache is used"),
                    Not(HasSubstr("has no direct"))));
}

TEST_F(DirectFallback, IsNoneWhereFilesLack) {
  for (const auto& [error, text] : {std::pair{EMFILE, "Too many open files"},
                                    std::pair{ENFILE, "Too many open files in system"}})
    EXPECT_THAT(words_without_direct(static_cast<unsigned>(error)),
                AllOf(HasSubstr("file: cannot open for direct transfers: "), HasSubstr(text),
                      Not(HasSubstr("page cache"))));
}

}  // namespace
}  // namespace dos::storage::fallback_test
