// SPDX-License-Identifier: Apache-2.0
#include "base/streams.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>

namespace dos::streams {
namespace {

/// Why standard output could not be written, errno's value; 0: it could.
std::atomic<int> output_failure = 0;

void occupy(int descriptor, int flags) noexcept {
  if (::fcntl(descriptor, F_GETFD) != -1) return;
  // The lowest number that is free.
  const int opened = ::open("/dev/null", flags);
  if (opened > STDERR_FILENO) ::close(opened);
}

}  // namespace

void set_up() noexcept {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  // Opened for the other direction, the first two fail as they do while they are closed.
  occupy(STDIN_FILENO, O_WRONLY);
  occupy(STDOUT_FILENO, O_RDONLY);
  occupy(STDERR_FILENO, O_WRONLY);
}

void write_output(std::string_view text) noexcept {
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() && output_failure == 0)
    output_failure = errno == 0 ? EIO : errno;
}

void write_error(std::string_view text) noexcept {
  while (!text.empty()) {
    const ssize_t count = ::write(STDERR_FILENO, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(count));
  }
}

int flush_output() noexcept {
  if (std::fflush(stdout) != 0) return errno;
  if (output_failure == 0 && std::ferror(stdout) != 0) return EIO;
  return output_failure;
}

}  // namespace dos::streams
