// SPDX-License-Identifier: Apache-2.0
#include "rt/locked_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>

namespace dos::rt {

std::string read_locked(const std::filesystem::path& file) {
  std::string text;
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return text;
  struct flock lock {};
  lock.l_type = F_RDLCK;
  lock.l_whence = SEEK_SET;
  // Where a file system has no locks StarPU reads without, too.
  while (::fcntl(descriptor, F_SETLKW, &lock) != 0 && errno == EINTR) {
  }
  std::array<char, 1 << 16> part{};
  for (;;) {
    const ssize_t bytes = ::read(descriptor, part.data(), part.size());
    if (bytes > 0) text.append(part.data(), static_cast<std::size_t>(bytes));
    if (bytes == 0 || (bytes < 0 && errno != EINTR)) break;
  }
  ::close(descriptor);
  return text;
}

}  // namespace dos::rt
