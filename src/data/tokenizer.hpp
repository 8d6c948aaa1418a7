// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/types.hpp"

namespace dos::data {

/// A part of a text, for threads that encode side by side.
struct TextPart {
  std::string_view text{};              ///< from the part's start on, with what its end depends on
  std::size_t length = 0;               ///< of it, the part; at least 1 unless it is a token
  std::optional<std::int32_t> token{};  ///< the part is this token, whatever the rest says
  std::shared_ptr<const std::string> owner{};  ///< of `text`, where it is not the caller's
  bool goes_on = false;  ///< nothing is put before it, as may be before a text
};

/// [first, last): bytes of a text.
using TextRange = std::pair<std::size_t, std::size_t>;

/// Text to tokens and back. Implementations are immutable: all members are thread-safe.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// Adds no token for the start or the end of a text. Text that is written like one of a
  /// tokenizer's added tokens encodes to it; without those none encodes to end_of_text().
  [[nodiscard]] virtual std::vector<std::int32_t> encode(std::string_view text) const = 0;

  /// The same of a stretch of a text that stands behind the token `before`, or begins it. Inside
  /// the ranges [first, last) of `quoted`, ascending, nothing becomes a special token; outside of
  /// them tokens that encode() finds in no text, SentencePiece's control pieces, are found, too.
  /// Pre: `text` is UTF-8.
  [[nodiscard]] virtual std::vector<std::int32_t> encode_quoting(
      std::string_view text, std::span<const TextRange> quoted,
      std::optional<std::int32_t> before) const;
  /// The token that encode_quoting() finds text to be without regard to what stands beside it;
  /// nullopt for any other text.
  [[nodiscard]] virtual std::optional<std::int32_t> added_token(std::string_view text) const;

  /// Cuts a text into parts of about `limit` bytes, for encode_part(). They view `text`. Pre: limit
  /// >= 4.
  [[nodiscard]] virtual std::vector<TextPart> parts(std::string_view text, std::size_t limit) const;
  /// Appends the tokens of a part. `taken` is how many bytes of it belong to tokens of the part
  /// before; returns how many bytes of the next part belong to tokens of this one. Parts encoded in
  /// order, each with what the one before has returned, give the tokens of the whole text.
  virtual std::size_t encode_part(const TextPart& part, std::size_t taken,
                                  std::vector<std::int32_t>& tokens) const;

  /// The end-of-text token decodes to nothing. Throws Error for a token outside the vocabulary.
  [[nodiscard]] virtual std::string decode(std::span<const std::int32_t> tokens) const = 0;
  /// The number of tokens, end-of-text included: tokens are 0 .. vocabulary() - 1.
  [[nodiscard]] virtual Index vocabulary() const = 0;
  /// As `prepare_data --tokenizer` and the manifest name it.
  [[nodiscard]] virtual std::string kind() const = 0;
  [[nodiscard]] virtual std::int32_t end_of_text() const = 0;
  /// The tokens that stand before each document, and before a prompt; none for most.
  [[nodiscard]] virtual std::span<const std::int32_t> begin_of_text() const { return {}; }

 protected:
  /// Throws Error when a token is not of this vocabulary.
  void check(std::span<const std::int32_t> tokens) const;
};

inline constexpr const char* kBytes = "bytes";
inline constexpr const char* kSentencePiece = "sentencepiece";
inline constexpr const char* kTokenizerJson = "tokenizer.json";

/// Token i < 256 is the byte i, token 256 is end-of-text: a vocabulary of 257. Exact for any bytes.
std::unique_ptr<Tokenizer> make_bytes_tokenizer();

}  // namespace dos::data
