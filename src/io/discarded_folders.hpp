// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "base/types.hpp"

namespace dos::io {

/// Checkpoints that are none any more, on their way out. They lose their names at once, and are
/// removed when nobody waits for that, or give their files to the next ones: those have their
/// places on the disk, so that nothing has to be found, and freed. Thread-safe.
class DiscardedFolders {
 public:
  /// Takes the name away at once, so that a crash leaves no half-removed checkpoint under it.
  /// Throws Error.
  void take(const std::filesystem::path& folder);
  /// Whether a folder of this name is on its way out.
  [[nodiscard]] bool has(const std::string& name) const;
  /// Gives the file of that name of one that was taken, with the bytes that it has, the name
  /// `path`. False where none has one of so many bytes that is nobody else's: it has no other name,
  /// and nobody has it open, as the kernel tells of local file systems. Others of the name, up to
  /// the one that is given, are removed: their room is for the next. What a folder has is for files
  /// of the folder that got the first. Throws Error.
  [[nodiscard]] bool reuse(const std::filesystem::path& path, Index bytes);
  /// Nothing more is given to files of this folder: what is left of those that have given it files
  /// is nobody's.
  void end_of(const std::filesystem::path& user);
  /// Removes what was taken, but the newest `spares` of which reuse() has given nothing, and those
  /// whose user has not ended. Warns of what cannot be removed.
  void remove(std::size_t spares = 0) noexcept;

 private:
  struct Folder {
    std::filesystem::path path;
    std::filesystem::path user;  ///< whose files its own are for; "": anybody's
    bool is_over = false;        ///< nobody waits for what is left
  };

  mutable std::mutex mutex_;     ///< of what follows
  std::set<std::string> names_;  ///< of all
  std::vector<Folder> waiting_;  ///< that nobody removes yet, the newest last
};

}  // namespace dos::io
