// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>
#include <string_view>
#include <utility>

#include "storage/direct_file.hpp"
#include "storage/engine.hpp"

namespace dos::offload {

/// A file of regions, and whether it is as a checkpoint's: with its header, and not longer than its
/// last byte.
class StateFile {
 public:
  explicit StateFile(storage::DirectFile file, bool is_complete = false)
      : file_(std::move(file)), is_complete_(is_complete) {}

  [[nodiscard]] const storage::DirectFile& file() const { return file_; }
  /// Makes it so: `header` at its beginning, `bytes` in all. What is so already is not written to.
  /// Any thread. Throws Error naming path and cause.
  void complete(storage::Engine& engine, std::string_view header, Index bytes,
                const storage::Label& label);

 private:
  storage::DirectFile file_;
  std::mutex mutex_;
  bool is_complete_;
};

}  // namespace dos::offload
