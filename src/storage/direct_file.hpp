// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>

#include "base/types.hpp"

namespace dos::storage {

/// A regular file whose large transfers go past the page cache (O_DIRECT) where its file system
/// can. Engine (engine.hpp) reads and writes it. Members throw Error naming the path and the cause.
class DirectFile {
 public:
  /// Of a new file, what of its space is reserved.
  enum class Room { kAll, kNone };
  /// Creates a file of `bytes` bytes, or empties one that is there, and reserves its space: a full
  /// disk is known before the first write, where the file system can tell.
  static DirectFile create(const std::filesystem::path& path, Index bytes, Room room = Room::kAll);
  /// Creates one beside `target` that has no name any more when this returns: it goes with the
  /// process, however that ends. Removes those that killed processes were about to rename so.
  static DirectFile create_nameless(const std::filesystem::path& target, Index bytes);
  /// Creates one in `folder` that has no name until link() gives it one: without, it goes with the
  /// process. Throws Error also where the file system has no such files (O_TMPFILE).
  static DirectFile create_unlinked(const std::filesystem::path& folder, Index bytes);
  /// Opens one to read it.
  static DirectFile open(const std::filesystem::path& path);
  /// Opens one that another process has created, to write to its places, and not to read it.
  static DirectFile open_to_write(const std::filesystem::path& path);
  DirectFile(DirectFile&& other) noexcept;
  DirectFile& operator=(DirectFile&&) = delete;
  ~DirectFile();

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  /// Bytes, when it was opened or created.
  [[nodiscard]] Index size() const noexcept { return size_; }
  /// Of the device: files on one share its queue.
  [[nodiscard]] std::uint64_t device() const noexcept { return device_; }
  /// Where its file system is mounted, as far as that can be seen.
  [[nodiscard]] std::filesystem::path mount_point() const;
  /// Whether large transfers go past the page cache.
  [[nodiscard]] bool is_direct() const noexcept { return direct_ >= 0 && usable_.load(); }
  /// What offsets and lengths of direct transfers are multiples of: whole pages.
  [[nodiscard]] Index alignment() const noexcept { return alignment_; }
  /// And addresses.
  [[nodiscard]] Index memory_alignment() const noexcept { return memory_alignment_; }

  /// Of the descriptor with O_DIRECT. Pre: is_direct().
  [[nodiscard]] int direct() const noexcept { return direct_; }
  /// Of the descriptor through the page cache.
  [[nodiscard]] int buffered() const noexcept { return buffered_; }
  /// Gives a file of create_unlinked() a name, or one more. False where it cannot have that: on
  /// another file system, or one without such links. Throws Error. Pre: it still has one where it
  /// had any.
  [[nodiscard]] bool link(const std::filesystem::path& path) const;
  /// Has the device keep room for some of its bytes. False where its file system cannot. Throws
  /// Error where there is no room.
  bool reserve(Index offset, Index bytes) const;
  /// Cuts the file down to its first `bytes` bytes. Pre: nobody uses the others.
  void truncate(Index bytes) const;

  /// For a file system that took O_DIRECT at opening and refuses the transfer: all go through the
  /// page cache from now on. Says so once a file system. Thread-safe.
  void give_up_direct() const;

 private:
  DirectFile(std::filesystem::path path, int flags);
  /// Of the file that is open. `flags`: its access mode.
  void open_direct(int flags);
  void set_size(Index bytes, Room room);

  std::filesystem::path path_;
  int buffered_ = -1;
  int direct_ = -1;
  mutable std::atomic<bool> usable_ = true;
  Index size_ = 0;
  Index alignment_ = 1;
  Index memory_alignment_ = 1;
  std::uint64_t device_ = 0;
};

/// "tmpfs", say, where what is at the path lies in memory; null where it does not, or nobody can
/// tell.
const char* memory_file_system(const std::filesystem::path& path);

}  // namespace dos::storage
