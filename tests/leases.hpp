// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>

namespace dos::test {

/// Whether the file system of a folder tells who has a file open: others have no file reused.
inline bool has_leases(const std::filesystem::path& folder) {
  const std::filesystem::path probe = folder / "lease";
  const int descriptor = ::open(probe.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (descriptor < 0) return false;
  const bool has = ::fcntl(descriptor, F_SETLEASE, F_WRLCK) == 0;
  ::close(descriptor);
  std::filesystem::remove(probe);
  return has;
}

}  // namespace dos::test
