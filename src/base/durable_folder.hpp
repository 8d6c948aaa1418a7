// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <system_error>

namespace dos {

/// Creates a folder and those above it that are missing, each flushed to the device in the one
/// above it. Returns what was wrong.
std::error_code create_directories_durably(const std::filesystem::path& folder);

/// Flushes every file and folder below `folder`, and itself, to the device. Throws Error.
void sync_tree(const std::filesystem::path& folder);

/// A folder that appears whole or not at all: made under a random name beside `path`, and on
/// commit() flushed to the device and renamed. Without commit() the destructor removes it; what
/// killed processes left the constructor removes. Nothing is ever replaced. Every member throws
/// Error naming the path and the cause.
class DurableFolder {
 public:
  /// Throws Error, too, when something is at `path`.
  explicit DurableFolder(const std::filesystem::path& path);
  DurableFolder(const DurableFolder&) = delete;
  DurableFolder& operator=(const DurableFolder&) = delete;
  ~DurableFolder();

  /// Where its files go.
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return temporary_; }
  /// Throws Error, too, when something has come to `path` meanwhile.
  void commit();

 private:
  void expect_free() const;

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int descriptor_ = -1;
};

}  // namespace dos
