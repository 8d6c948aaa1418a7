// SPDX-License-Identifier: Apache-2.0
#include "data/output_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "base/error.hpp"

namespace dos::data {
namespace {

void create_parents(const std::filesystem::path& path) {
  if (!path.has_parent_path()) return;
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  expect(!error, "--output: cannot create the folder {}: {}; choose a writable place",
         path.parent_path().string(), error.message());
}

bool is_same_file(const struct stat& mine, const std::filesystem::path& path) {
  struct stat there {};
  return ::lstat(path.c_str(), &there) == 0 && mine.st_dev == there.st_dev &&
         mine.st_ino == there.st_ino;
}

}  // namespace

OutputLock::OutputLock(const std::filesystem::path& prefix) : path_(prefix.string() + ".lock") {
  create_parents(path_);
  // Whoever holds the file may remove it at any moment: then there is a next one.
  for (struct stat info{}; descriptor_ < 0 || !is_same_file(info, path_);) {
    if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
    constexpr int kFlags = O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
    descriptor_ = ::open(path_.c_str(), kFlags, 0644);
    expect(descriptor_ >= 0, "--output: cannot create {}: {}; choose a writable place",
           path_.string(), std::generic_category().message(errno));
    const bool is_taken = ::flock(descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    const bool is_ours =
        ::fstat(descriptor_, &info) == 0 && S_ISREG(info.st_mode) && info.st_size == 0;
    if (is_taken || !is_ours) ::close(std::exchange(descriptor_, -1));
    expect(
        !is_taken,
        "--output {}: another prepare_data writes this data set: wait for it, stop it, or choose "
        "another --output",
        prefix.string());
    expect(is_ours,
           "{}: is there already and is no lock of prepare_data, which is empty: choose "
           "another --output, or remove it",
           path_.string());
  }
}

OutputLock::~OutputLock() {
  // Before the lock goes: it is ours until then.
  ::unlink(path_.c_str());
  ::close(descriptor_);
}

}  // namespace dos::data
