// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <utility>

namespace dos::io {

/// The disk that a folder is on. When that is unmounted, or lost, the path means nothing, or a
/// folder on the disk below: nothing is to be written there.
class FolderPlace {
 public:
  explicit FolderPlace(std::filesystem::path folder) : folder_(std::move(folder)) {}

  /// Takes note of it, if the folder is there and it is not known yet.
  void remember();
  [[nodiscard]] bool is_known() const { return device_.has_value(); }
  /// Throws Error where it is known, and the folder is gone or on another one.
  void expect_kept() const;

 private:
  std::filesystem::path folder_;
  std::optional<std::uint64_t> device_;
};

}  // namespace dos::io
