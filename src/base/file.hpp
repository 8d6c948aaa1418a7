// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "base/types.hpp"

namespace dos {

/// A whole file mapped read-only. Throws Error when it cannot be opened or mapped; an empty file
/// maps to an empty span.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;
  ~MappedFile();

  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return bytes_; }
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
  std::span<const std::byte> bytes_;
};

/// A file that appears whole or not at all: written as "<path>.tmp", and on commit() flushed to the
/// device (fsync) and renamed over `path`. Without commit() the destructor removes the temporary.
/// Every member throws Error naming the path and the cause, "No space left on device" say; the
/// constructor also for a device or a pipe, which a rename would replace.
class DurableFile {
 public:
  explicit DurableFile(std::filesystem::path path);
  DurableFile(DurableFile&& other) noexcept;
  DurableFile& operator=(DurableFile&&) = delete;
  ~DurableFile();

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  /// Overwrites bytes written before: for headers that are known last. Pre: inside what was
  /// written.
  void write_at(Index offset, std::span<const std::byte> bytes);
  void commit();

  [[nodiscard]] Index bytes_written() const noexcept { return written_; }

 private:
  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int descriptor_ = -1;
  Index written_ = 0;
};

/// Writes `text` to `path` through DurableFile.
void write_durably(const std::filesystem::path& path, std::string_view text);

/// Flushes a directory's entries to the device, so that renames inside it survive a crash.
void sync_directory(const std::filesystem::path& directory);

/// The file's whole contents. Throws Error when it cannot be read.
std::string read_text(const std::filesystem::path& path);

/// Throws Error when something that was printed to standard output has not arrived there: at the
/// end of a program, as what is lost in exit() is lost without a word.
void expect_output_written();

}  // namespace dos
