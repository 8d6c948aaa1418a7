// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

#include "base/file.hpp"
#include "base/mapped_file.hpp"
#include "storage/file.hpp"
#include "storage/pages.hpp"

namespace dos::io {

/// A thread's memory for what it reads past the page cache.
class ReadBuffer {
 public:
  /// Most bytes of a read.
  static constexpr Index kBytes = Index{1} << 20;

  /// With room for what lies around them in units of the device.
  [[nodiscard]] storage::Pages& pages() {
    if (pages_ == nullptr) pages_ = std::make_unique<storage::Pages>(kBytes + 2 * kMostUnit);
    return *pages_;
  }
  static constexpr Index kMostUnit = Index{64} << 10;

 private:
  std::unique_ptr<storage::Pages> pages_;
};

/// A file that is read once: through the page cache where the system has it there, else past it,
/// which takes a fraction of the processor's time. Reading is thread-safe. Members throw Error
/// naming the path and the cause.
class WeightFile {
 public:
  explicit WeightFile(const std::filesystem::path& path);

  [[nodiscard]] const InputFile& input() const noexcept { return input_; }
  /// Whether reads of these bytes should go past the page cache: some are not in memory, and the
  /// file system can.
  [[nodiscard]] bool prefers_direct(Index offset, Index bytes) const;
  /// Bytes from `offset` on, in the buffer until its next use; fewer at the file's end only.
  /// Pre: bytes <= ReadBuffer::kBytes.
  std::span<const std::byte> read_direct(Index offset, Index bytes, ReadBuffer& buffer) const;

 private:
  InputFile input_;
  storage::File direct_;
  MappedFile mapping_;  ///< its pages are asked for, not touched
};

}  // namespace dos::io
