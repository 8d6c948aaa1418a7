// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <mutex>
#include <optional>

#include "io/checkpoint_directory.hpp"
#include "io/checkpoint_manifest.hpp"

namespace dos::checkpoint {

/// The constant file of a run's checkpoints, as the last one in each store has it. Later ones get a
/// second name for it (a hard link), so that it is written once, and is there as long as one of
/// them is. All members are thread-safe.
class KeptFile {
 public:
  /// What the store has, and was written there through this; nullopt: nothing.
  [[nodiscard]] std::optional<io::FileRecord> in(const io::CheckpointStore& store) const;
  /// Makes `path`, which is not there, a second name of it. False where it has vanished or has
  /// another size than it had, or the file system has no second names: then `path` is not there,
  /// and to be written. Throws where that cannot be made sure of.
  [[nodiscard]] bool link(const io::CheckpointStore& store, const std::filesystem::path& path);
  /// A checkpoint in the store has the file at `path`, on the device. Another one that the store
  /// has stays the one.
  void keep(const io::CheckpointStore& store, const std::filesystem::path& path,
            const io::FileRecord& record);
  /// The next checkpoints are of other parameters.
  void forget();

 private:
  struct Place {
    std::filesystem::path path;
    std::uintmax_t bytes;
    io::FileRecord record;
  };

  mutable std::mutex mutex_;
  std::map<const io::CheckpointStore*, Place> places_;
};

}  // namespace dos::checkpoint
