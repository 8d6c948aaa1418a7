// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/kept_file.hpp"

#include <system_error>

namespace dos::checkpoint {

namespace fs = std::filesystem;

std::optional<io::FileRecord> KeptFile::in(const io::CheckpointStore& store) const {
  const std::lock_guard lock(mutex_);
  const auto place = places_.find(&store);
  return place == places_.end() ? std::nullopt : std::optional(place->second.record);
}

bool KeptFile::link(const io::CheckpointStore& store, const fs::path& path) {
  const std::lock_guard lock(mutex_);
  const auto place = places_.find(&store);
  if (place == places_.end()) return false;
  std::error_code cause;
  const bool is_whole = fs::file_size(place->second.path, cause) == place->second.bytes;
  if (!is_whole) return false;
  fs::create_hard_link(place->second.path, path, cause);
  if (!cause) return true;
  // A network's file system may have made it all the same, its answer lost. Who then wrote to
  // `path` would write to every checkpoint.
  fs::remove(path);
  return false;
}

void KeptFile::keep(const io::CheckpointStore& store, const fs::path& path,
                    const io::FileRecord& record) {
  std::error_code cause;
  const std::uintmax_t bytes = fs::file_size(path, cause);
  // It was removed already: the one before it may still be there.
  if (cause) return;
  const std::lock_guard lock(mutex_);
  const auto before = places_.find(&store);
  // Two that were under way at once have written it: of what comes, all share one.
  if (before != places_.end() && fs::exists(before->second.path, cause) &&
      !fs::equivalent(before->second.path, path, cause))
    return;
  places_.insert_or_assign(&store, Place{path, bytes, record});
}

void KeptFile::forget() {
  const std::lock_guard lock(mutex_);
  places_.clear();
}

}  // namespace dos::checkpoint
