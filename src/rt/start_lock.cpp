// SPDX-License-Identifier: Apache-2.0
#include "rt/start_lock.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <thread>

namespace dos::rt {

StartLock::StartLock(const std::filesystem::path& file, std::chrono::milliseconds patience) {
  constexpr std::chrono::milliseconds kPause{10};
  std::error_code ignored;
  std::filesystem::create_directories(file.parent_path(), ignored);
  descriptor_ = ::open(file.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (descriptor_ < 0) return;
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (!(is_held_ = ::flock(descriptor_, LOCK_EX | LOCK_NB) == 0)) {
    const bool is_taken = errno == EWOULDBLOCK || errno == EINTR;
    if (!is_taken || std::chrono::steady_clock::now() >= deadline) return;
    std::this_thread::sleep_for(kPause);
  }
}

StartLock::~StartLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

std::filesystem::path StartLock::default_file() {
  const char* home = std::getenv("STARPU_HOME");
  if (home == nullptr) home = std::getenv("HOME");
  std::array<char, HOST_NAME_MAX + 1> host{};
  ::gethostname(host.data(), host.size() - 1);
  return std::filesystem::path(home == nullptr ? "/tmp" : home) / ".starpu" /
         fmt::format("dos-{}.lock", host.data());
}

}  // namespace dos::rt
