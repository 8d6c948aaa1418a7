// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <span>

#include "base/file.hpp"
#include "base/types.hpp"

namespace dos::data {

/// A token file is llm.c's `.bin`: a header of 256 little-endian int32, then the tokens.
///   header[0], [1]  magic and version: 20240520, 1 for uint16 tokens (vocabulary up to 65,536);
///                   20240801, 7 for uint32 tokens (any larger vocabulary)
///   header[2], [3]  low and high 32 bits of the number of tokens. Up to 2^31 - 1 tokens this is
///                   llm.c's own header; beyond that llm.c has no files.
/// The rest of the header is zero on writing and ignored on reading.
inline constexpr Index kTokenHeaderBytes = 256 * 4;

/// The largest vocabulary whose tokens are stored in two bytes.
inline constexpr Index kNarrowVocabulary = 65'536;

/// The header of a file of `tokens` tokens. Pre: vocabulary > 0, tokens >= 0.
std::array<std::int32_t, 256> token_header(Index vocabulary, Index tokens);

/// A token file mapped read-only; reading is thread-safe. The constructor throws Error, naming the
/// file and the remedy, when the file is missing, empty, cut short, too long, without tokens, or
/// not a token file of a known version. The tokens themselves are not checked: the vocabulary is
/// not in the file.
class TokenFile {
 public:
  explicit TokenFile(const std::filesystem::path& path);

  /// The number of tokens, at least 1.
  [[nodiscard]] Index size() const noexcept { return size_; }
  /// Pre: 0 <= position < size(). A uint32 token above 2^31 - 1 reads as a negative number.
  [[nodiscard]] std::int32_t operator[](Index position) const;
  /// Copies tokens first .. first + out.size() - 1. Pre: they lie inside the file.
  void read(Index first, std::span<std::int32_t> out) const;
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return file_.path(); }

 private:
  MappedFile file_;
  Index size_ = 0;
  bool narrow_ = true;
};

/// Writes a token file of any length. The file appears whole on commit(), or not at all.
class TokenWriter {
 public:
  /// Pre: vocabulary > 0. Throws Error when the file cannot be created.
  TokenWriter(const std::filesystem::path& path, Index vocabulary);

  /// Throws Error when a token lies outside the vocabulary or the device is full.
  void append(std::span<const std::int32_t> tokens);
  /// Throws Error when no token was appended or the file cannot be put in place. Called last.
  void commit();

  [[nodiscard]] Index size() const noexcept { return size_; }

 private:
  std::filesystem::path path_;
  Index vocabulary_;
  Index size_ = 0;
  DurableFile file_;
};

}  // namespace dos::data
