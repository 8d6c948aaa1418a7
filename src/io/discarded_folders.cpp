// SPDX-License-Identifier: Apache-2.0
#include "io/discarded_folders.hpp"

#include <fmt/format.h>

#include <system_error>
#include <utility>

#include "base/log.hpp"
#include "io/checkpoint_folders.hpp"
#include "io/checkpoint_moves.hpp"

namespace dos::io {

namespace fs = std::filesystem;

void DiscardedFolders::take(const fs::path& folder) {
  const std::lock_guard lock(mutex_);
  const auto name_of = [&](const std::string& number) {
    return folder.filename().string() + ".discarded" + number + std::string(kStagingSuffix);
  };
  std::string name = name_of("");
  // One of the same step may still be on its way.
  for (Index number = 2; names_.contains(name); ++number)
    name = name_of(fmt::format("-{}", number));
  waiting_.push_back(folder.parent_path() / name);
  try {
    rename_folder(folder, waiting_.back());
  } catch (...) {
    waiting_.pop_back();
    throw;
  }
  names_.insert(std::move(name));
}

bool DiscardedFolders::has(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  return names_.contains(name);
}

void DiscardedFolders::remove() noexcept {
  std::unique_lock lock(mutex_);
  const std::vector<fs::path> folders = std::exchange(waiting_, {});
  for (const fs::path& folder : folders) {
    lock.unlock();
    std::error_code cause;
    fs::remove_all(folder, cause);
    if (cause)
      log::warn("{}: cannot remove: {}; remove it by hand", folder.string(), cause.message());
    lock.lock();
    names_.erase(folder.filename().string());
  }
}

}  // namespace dos::io
