// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

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

  /// To be called before something is written to the folder by its name. Where the folder is not
  /// the one that was locked any more (somebody has removed or moved it, and it was made anew), or
  /// the lock's file is gone, it is locked as well. Throws Error when another process has it, or
  /// another run was there meanwhile. Pre: the folder exists. From one thread at a time.
  void keep();

  /// A lock as on a file system without locks.
  static RunLock by_file_alone(const std::filesystem::path& folder) { return {folder, {}, false}; }

 private:
  RunLock(const std::filesystem::path& folder, LockWords words, bool asks_system);
  bool try_to_take();

  std::filesystem::path folder_;
  LockWords words_;
  std::filesystem::path path_;
  bool asks_system_;
  int descriptor_ = -1;
  int place_ = -1;           ///< the folder that was locked first, whatever its name is now
  std::vector<int> former_;  ///< what keep() has replaced: held to the end
};

/// Whether a process has the folder, as far as this one can see; nothing is changed. On a file
/// system without locks: whether there is a file that no process of this machine has left behind.
bool is_locked(const std::filesystem::path& folder);

}  // namespace dos::io
