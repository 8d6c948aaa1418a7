// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace dos::data {

/// The files of a data set that is written belong to one process as long as this lives: an empty
/// file PREFIX.lock, locked by the system until its process ends, however that ends. The destructor
/// removes it. Where files cannot be locked it keeps nobody away.
class OutputLock {
 public:
  /// Creates its folder. Throws Error when another process has it, or the file cannot be created or
  /// is somebody's.
  explicit OutputLock(const std::filesystem::path& prefix);
  OutputLock(const OutputLock&) = delete;
  OutputLock& operator=(const OutputLock&) = delete;
  ~OutputLock();

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace dos::data
