// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace dos::io {

/// Checkpoints that are none any more, on their way out. They lose their names at once, and are
/// removed when nobody waits for that. Thread-safe.
class DiscardedFolders {
 public:
  /// Takes the name away at once, so that a crash leaves no half-removed checkpoint under it.
  /// Throws Error.
  void take(const std::filesystem::path& folder);
  /// Whether a folder of this name is on its way out.
  [[nodiscard]] bool has(const std::string& name) const;
  /// Removes what was taken. Warns of what cannot be.
  void remove() noexcept;

 private:
  mutable std::mutex mutex_;                    ///< of what follows
  std::set<std::string> names_;                 ///< of all
  std::vector<std::filesystem::path> waiting_;  ///< that nobody removes yet
};

}  // namespace dos::io
