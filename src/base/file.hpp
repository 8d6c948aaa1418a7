// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "base/types.hpp"

namespace dos {

/// A regular file that is read piece by piece. Unlike with a mapping, a file that others cut short
/// meanwhile is a short read, not the end of the program. Reading is thread-safe. Members throw
/// Error naming the path and the cause.
class InputFile {
 public:
  explicit InputFile(const std::filesystem::path& path);
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&&) = delete;
  ~InputFile();

  /// Bytes from `offset` on into `out`; returns how many there were, fewer at the file's end only.
  Index read(Index offset, std::span<std::byte> out) const;
  /// Bytes, when it was opened.
  [[nodiscard]] Index size() const noexcept { return size_; }
  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  Index size_ = 0;
};

/// A file that appears whole or not at all: written under a random name beside `path`, and on
/// commit() flushed to the device (fsync) and renamed over `path`. Without commit() the destructor
/// removes the temporary; those that killed processes left the constructor removes. No link is
/// ever written through. Every member throws Error naming the path and the cause, "No space left
/// on device" say; the constructor also for a device or a pipe, which a rename would replace.
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
  /// Sends what was written to the device: where several files belong together, before the first
  /// of them is put in place. commit() does it otherwise.
  void flush();
  void commit();

 private:
  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int descriptor_ = -1;
  Index written_ = 0;
  bool is_flushed_ = false;
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
