// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace dos::io {

/// The output folder of a run belongs to one process as long as this lives: a lock of the system on
/// the file "run.lock" in it, which holds on network file systems as well (NFS 4; Lustre mounted
/// with flock) and ends with its process, however that ends. The file says who holds it, for
/// messages; the destructor removes it, and one that a killed process left is taken over.
///
/// On a file system that has no such locks the file itself is the lock: one left by a process of
/// this machine that does not live any more is taken over, any other is refused.
class RunLock {
 public:
  /// Pre: the folder exists. Throws Error naming the holder's host and process, or when the file
  /// cannot be written.
  explicit RunLock(const std::filesystem::path& folder) : RunLock(folder, true) {}
  RunLock(RunLock&& other) noexcept;
  RunLock& operator=(RunLock&&) = delete;
  ~RunLock();

  /// A lock as on a file system without locks.
  static RunLock by_file_alone(const std::filesystem::path& folder) { return {folder, false}; }

 private:
  RunLock(const std::filesystem::path& folder, bool asks_system);
  bool try_to_take(bool asks_system);

  std::filesystem::path folder_;
  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace dos::io
