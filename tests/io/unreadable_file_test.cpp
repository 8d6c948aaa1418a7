// SPDX-License-Identifier: Apache-2.0
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

#include "base/crc32c.hpp"
#include "base/error.hpp"
#include "base/file.hpp"
#include "io/checkpoint_manifest.hpp"
#include "io/safetensors_writer.hpp"
#include "message_of.hpp"
#include "scratch_directory.hpp"

namespace dos::io::unreadable_file_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// From now on this process reads no file: the disk gives an error. False: the kernel forbids it.
bool break_reads() {
  std::array<sock_filter, 4> filter{{BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                                     BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_pread64, 0, 1),
                                     BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EIO),
                                     BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)}};
  const sock_fprog program{.len = filter.size(), .filter = filter.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/// What `action` says of a disk that gives an error for each read, in a child process; "" where it
/// needs no read.
template <class Action>
std::string words_of_broken_disk(const Action& action) {
  std::array<int, 2> ends{};
  expect(::pipe(ends.data()) == 0, "a pipe");
  const pid_t child = ::fork();
  if (child == 0) {
    if (!break_reads()) ::_exit(2);
    const std::string words = test::message_of<Error>(action);
    const bool is_told = ::write(ends[1], words.data(), words.size()) == std::ssize(words);
    ::_exit(is_told ? 0 : 3);
  }
  ::close(ends[1]);
  std::string words(4096, '\0');
  const ssize_t count = ::read(ends[0], words.data(), words.size());
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0) << "2: the kernel does not let this process filter calls";
  words.resize(count < 0 ? 0 : static_cast<std::size_t>(count));
  return words;
}

class UnreadableFile : public testing::Test {
 protected:
  void SetUp() override {
    const TensorSpec tensor{"w", DType::kF32, {1}};
    const std::array<std::byte, 4> zero{};
    SafetensorsWriter writer(path_, {tensor}, {});
    writer.write("w", zero);
    writer.commit();
    std::string header = read_text(path_);
    header.resize(header.size() - zero.size());
    const auto bytes = std::as_bytes(std::span(header));
    manifest_.files = {{.name = path_.filename().string(),
                        .tensors = {{tensor, {{4, crc32c(zero)}}, {}}},
                        .header = PieceSum{std::ssize(bytes), crc32c(bytes)}}};
    write_manifest(scratch_.path(), manifest_);
  }

  test::ScratchDirectory scratch_;
  std::filesystem::path path_ = scratch_ / "model.safetensors";
  CheckpointManifest manifest_;
};

// A mapping would end the program, where the next checkpoint may be intact.
TEST_F(UnreadableFile, IsAnErrorInItsHeader) {
  const auto names_cause =
      AllOf(HasSubstr("model.safetensors"), HasSubstr("cannot read: Input/output error"));
  EXPECT_THAT(words_of_broken_disk([&] { SafetensorsFile{path_}; }), names_cause);
  const SafetensorsFile file(path_);
  EXPECT_NO_THROW(expect_layout(file, manifest_));
  EXPECT_THAT(words_of_broken_disk([&] { expect_layout(file, manifest_); }), names_cause);
}

TEST_F(UnreadableFile, IsAnErrorInAManifest) {
  EXPECT_THAT(words_of_broken_disk([&] { read_manifest(scratch_.path()); }),
              HasSubstr("manifest.json: cannot read: Input/output error"));
}

TEST_F(UnreadableFile, IsAnErrorWhereItWasCutShort) {
  const SafetensorsFile file(path_);
  std::filesystem::resize_file(path_, 0);
  EXPECT_THAT(test::message_of<Error>([&] { expect_layout(file, manifest_); }),
              HasSubstr("model.safetensors: its header has checksum "));
}

}  // namespace
}  // namespace dos::io::unreadable_file_test
