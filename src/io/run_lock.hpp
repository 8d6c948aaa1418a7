// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <utility>

namespace dos::io {

/// The file in the folder.
inline constexpr const char* kLockName = "run.lock";

/// What a folder is called to those who find it locked, and what they can do.
struct LockWords {
  std::string what = "--out";
  std::string remedy = "wait for it, stop it, or choose another --out";
};

/// The output folder of a run belongs to one process as long as this lives: a lock of the system on
/// the file kLockName in it, which holds on network file systems as well (NFS 4; Lustre mounted
/// with flock) and ends with its process, however that ends. The file says who holds it, for
/// messages; the destructor removes it, and one that a killed process left is taken over.
///
/// On a file system that has no such locks the file itself is the lock: one left by a process of
/// this machine that does not live any more is taken over, any other is refused.
class RunLock {
 public:
  /// Pre: the folder exists. Throws Error naming the holder's host and process, or when the file
  /// cannot be written.
  explicit RunLock(const std::filesystem::path& folder, LockWords words = {})
      : RunLock(folder, std::move(words), true) {}
  RunLock(RunLock&& other) noexcept;
  RunLock& operator=(RunLock&&) = delete;
  ~RunLock();

  /// A lock as on a file system without locks.
  static RunLock by_file_alone(const std::filesystem::path& folder) { return {folder, {}, false}; }

 private:
  RunLock(const std::filesystem::path& folder, LockWords words, bool asks_system);
  bool try_to_take(bool asks_system);

  std::filesystem::path folder_;
  LockWords words_;
  std::filesystem::path path_;
  int descriptor_ = -1;
};

/// Whether a process has the folder, as far as this one can see; nothing is changed. On a file
/// system without locks: whether there is a file that no process of this machine has left behind.
bool is_locked(const std::filesystem::path& folder);

}  // namespace dos::io
