// SPDX-License-Identifier: Apache-2.0
#include "io/folder_place.hpp"

#include <sys/stat.h>

#include <cerrno>
#include <system_error>

#include "base/error.hpp"

namespace dos::io {

void FolderPlace::remember() {
  struct stat info {};
  if (!device_ && ::stat(folder_.c_str(), &info) == 0) device_ = info.st_dev;
}

void FolderPlace::expect_kept() const {
  if (!device_) return;
  struct stat info {};
  const int cause = ::stat(folder_.c_str(), &info) == 0 ? 0 : errno;
  expect(cause == 0, "{}: is there no more ({}); mount its disk again, or put the folder back",
         folder_.string(), std::generic_category().message(cause));
  expect(info.st_dev == *device_,
         "{}: is on another disk than when the run began; mount that one again, or put the folder "
         "back",
         folder_.string());
}

}  // namespace dos::io
