// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/file.hpp"

namespace dos::test {

/// Leaves a file to the disk alone, where its file system lets go of pages.
inline void leave_page_cache(const std::filesystem::path& path) {
  const InputFile file(path);
  ASSERT_EQ(::fdatasync(file.descriptor()), 0);
  ASSERT_EQ(::posix_fadvise(file.descriptor(), 0, 0, POSIX_FADV_DONTNEED), 0);
}

}  // namespace dos::test
