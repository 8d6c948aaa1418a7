// SPDX-License-Identifier: Apache-2.0
#include "base/temporary.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>

#include "base/error.hpp"

namespace dos {
namespace {

constexpr std::string_view kTemporarySuffix = ".tmp";
constexpr std::size_t kRandomDigits = 16;

bool is_random_name_beside(const std::string& name, const std::string& target) {
  if (name.size() != target.size() + 1 + kRandomDigits + kTemporarySuffix.size() ||
      !name.starts_with(target + ".") || !name.ends_with(kTemporarySuffix))
    return false;
  const std::string_view digits = std::string_view(name).substr(target.size() + 1, kRandomDigits);
  return std::ranges::all_of(digits, [](unsigned char c) { return std::isxdigit(c) != 0; });
}

/// Removes a temporary that no living process has locked. Where files cannot be locked it stays.
void remove_if_left(const std::filesystem::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0) return;
  const Descriptor guard(descriptor);
  if (::flock(descriptor, LOCK_EX | LOCK_NB) != 0) return;
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

}  // namespace

Descriptor::~Descriptor() {
  ::close(descriptor_);
}

int flush(int descriptor) {
  while (::fsync(descriptor) != 0)
    if (errno != EINTR) return errno;
  return 0;
}

std::filesystem::path random_name_beside(const std::filesystem::path& target) {
  std::uint64_t word = 0;
  if (::getrandom(&word, sizeof word, 0) != static_cast<ssize_t>(sizeof word))
    fail_errno("no random numbers", errno);
  std::filesystem::path name = target;
  name += fmt::format(".{:0{}x}{}", word, kRandomDigits, kTemporarySuffix);
  return name;
}

void remove_leftovers(const std::filesystem::path& target) {
  const std::string name = target.filename().string();
  std::error_code cause;
  std::filesystem::directory_iterator entry(
      target.has_parent_path() ? target.parent_path() : std::filesystem::path("."), cause);
  for (; !cause && entry != std::filesystem::directory_iterator(); entry.increment(cause))
    if (is_random_name_beside(entry->path().filename().string(), name))
      remove_if_left(entry->path());
}

bool keep_temporary(int descriptor) {
  struct stat info {};
  if (::flock(descriptor, LOCK_EX | LOCK_NB) != 0) return errno != EWOULDBLOCK;
  return ::fstat(descriptor, &info) != 0 || info.st_nlink > 0;
}

}  // namespace dos
