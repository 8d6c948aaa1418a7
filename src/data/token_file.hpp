// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <vector>

#include "base/checksum.hpp"
#include "base/file.hpp"
#include "base/types.hpp"
#include "data/token_header.hpp"
#include "data/token_layout.hpp"

namespace dos::data {

/// The token files that this program writes are llm.c's `.bin`: a header of 256 little-endian
/// int32, then the tokens.
///   header[0], [1]  magic and version: 20240520, 1 for uint16 tokens (vocabulary up to 65,536);
///                   20240801, 7 for uint32 tokens (any larger vocabulary)
///   header[2], [3]  low and high 32 bits of the number of tokens. Up to 2^31 - 1 tokens this is
///                   llm.c's own header; beyond that llm.c has no files.
/// The rest of the header is zero on writing and ignored on reading.
/// The largest vocabulary whose tokens are stored in two bytes.
inline constexpr Index kNarrowVocabulary = 65'536;

/// The header of a file of `tokens` tokens. Pre: vocabulary > 0, tokens >= 0.
TokenHeader token_header(Index vocabulary, Index tokens);

/// What can be said of a token file's tokens when all of them have been seen.
struct TokenSums {
  Index largest = -1;          ///< the largest token; -1 without tokens
  std::uint64_t checksum = 0;  ///< xxh3 of the tokens as they are stored, without the header

  bool operator==(const TokenSums&) const = default;
};

/// A token file, ours or another program's (find_layout()), read piece by piece; reading is
/// thread-safe. Copies read the same open files. The constructor throws Error, naming the file and
/// the remedy, when the file is missing or as find_layout() does. The tokens themselves are not
/// checked: the vocabulary is not in the file.
class TokenFile {
 public:
  explicit TokenFile(const std::filesystem::path& path, Part part = Part::kAll);
  /// Several files, one behind the other. Pre: at least one. Throws Error also where the tokens of
  /// one are of another size.
  explicit TokenFile(std::span<const std::filesystem::path> paths);

  /// The number of tokens, at least 1.
  [[nodiscard]] Index size() const noexcept { return size_; }
  /// Pre: 0 <= position < size(). A uint32 token above 2^31 - 1 reads as a negative number.
  [[nodiscard]] std::int32_t operator[](Index position) const;
  /// Copies tokens first .. first + out.size() - 1. Pre: they lie inside the file. Throws Error
  /// when they do no longer, because somebody has cut the file short.
  void read(Index first, std::span<std::int32_t> out) const;
  /// Throws Error, naming the file, position and value, for the first token outside the vocabulary;
  /// `tokens` were read from position `first` on.
  void expect_inside(Index vocabulary, Index first, std::span<const std::int32_t> tokens) const;
  /// Reads all tokens, as fast as the disk gives them. Throws as read() and expect_inside() do;
  /// nullopt when it was stopped.
  [[nodiscard]] std::optional<TokenSums> check(Index vocabulary, const std::stop_token& stop) const;
  /// Of several files the first one's.
  [[nodiscard]] const std::filesystem::path& path() const noexcept {
    return shards_->front().file.path();
  }

 private:
  struct Shard {
    InputFile file;
    TokenLayout layout;
    Index first;  ///< token
  };

  void add(std::vector<Shard>& shards, const std::filesystem::path& path, Part part);
  /// Pre: position < size().
  [[nodiscard]] const Shard& shard_of(Index position) const;
  [[nodiscard]] bool is_narrow() const noexcept { return token_bytes_ == 2; }
  /// The stored bytes of tokens from `first` on. Throws Error when they are gone.
  void load(Index first, std::span<std::byte> stored) const;

  Index size_ = 0;
  Index token_bytes_ = 0;
  std::shared_ptr<const std::vector<Shard>> shards_;
};

/// What takes the tokens of texts, one text after the other or in parts.
class TokenSink {
 public:
  virtual ~TokenSink() = default;
  virtual void append(std::span<const std::int32_t> tokens) = 0;
};

/// Writes a token file of any length. The file appears whole on commit(), or not at all.
class TokenWriter final : public TokenSink {
 public:
  /// Pre: vocabulary > 0. Throws Error when the file cannot be created.
  TokenWriter(const std::filesystem::path& path, Index vocabulary);

  /// Throws Error when a token lies outside the vocabulary or the device is full.
  void append(std::span<const std::int32_t> tokens) override;
  /// Sends all of it to the device. Throws Error when no token was appended. Called behind the last
  /// append().
  void flush();
  /// Throws Error as flush(), or when the file cannot be put in place. Called last.
  void commit();

  [[nodiscard]] Index size() const noexcept { return size_; }
  /// Of the tokens appended so far.
  [[nodiscard]] TokenSums sums() const { return {largest_, checksum_.value()}; }

 private:
  template <class Stored>
  void append_as(std::span<const std::int32_t> tokens);

  std::filesystem::path path_;
  Index vocabulary_;
  Index size_ = 0;
  Index largest_ = -1;
  Checksum checksum_;
  DurableFile file_;
};

}  // namespace dos::data
