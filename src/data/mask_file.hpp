// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <stop_token>
#include <string_view>

#include "base/checksum.hpp"
#include "base/file.hpp"
#include "base/types.hpp"

namespace dos::data {

/// All masks begin with it.
inline constexpr std::string_view kMaskMark = "dos.mask";

/// What can be said of a mask file when all of it has been seen.
struct MaskSums {
  Index targets = 0;           ///< tokens whose prediction counts
  std::uint64_t checksum = 0;  ///< xxh3 of the bits as they are stored, without the header

  bool operator==(const MaskSums&) const = default;
};

/// Which tokens of a token file count as targets: the 8 bytes "dos.mask", the number of tokens as a
/// little-endian uint64, then one bit a token, the first in the lowest bit of the first byte; 1:
/// counts. Bits behind the last are 0. Reading is thread-safe.
class MaskFile {
 public:
  /// Throws Error, naming the file and the remedy, when it is missing, no mask file, or not as long
  /// as its header says.
  explicit MaskFile(const std::filesystem::path& path);
  /// The same file, opened again.
  [[nodiscard]] MaskFile again() const { return MaskFile(path()); }

  /// The number of tokens.
  [[nodiscard]] Index size() const noexcept { return size_; }
  /// Makes inputs only (base/target.hpp) of the tokens that do not count; `tokens` were read from
  /// position `first` on. Pre: they lie inside the file. Throws Error when they do no longer.
  void apply(Index first, std::span<std::int32_t> tokens) const;
  /// Tokens that count in each of out.size() stretches of `length` from position `first` on. As
  /// apply().
  void count(Index first, Index length, std::span<Index> out) const;
  /// Reads all of it; nullopt when it was stopped. Throws Error when it was cut short.
  [[nodiscard]] std::optional<MaskSums> check(const std::stop_token& stop) const;
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return file_.path(); }

 private:
  void load(Index first_byte, std::span<std::byte> bytes) const;

  InputFile file_;
  Index size_ = 0;
};

/// Writes a mask file of any length. The file appears whole on commit(), or not at all.
class MaskWriter {
 public:
  /// Throws Error when the file cannot be created.
  explicit MaskWriter(const std::filesystem::path& path);

  /// Elements of a batch (base/target.hpp), of which those that are targets count. Throws Error
  /// when the device is full.
  void append(std::span<const std::int32_t> elements);
  /// Sends all of it to the device. Called behind finish().
  void flush();
  /// Throws Error when the file cannot be put in place. Called last.
  void commit();

  [[nodiscard]] Index size() const noexcept { return size_; }
  /// Called between the last append() and commit().
  [[nodiscard]] MaskSums finish();

 private:
  void write_block(std::size_t bytes);

  DurableFile file_;
  Checksum checksum_;
  std::array<std::byte, 4096> block_{};
  Index size_ = 0;
  Index targets_ = 0;
};

}  // namespace dos::data
