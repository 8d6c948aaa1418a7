// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.hpp"

namespace dos::data {

/// Text to tokens and back. Implementations are immutable: all members are thread-safe.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// Adds no end-of-text token. No text encodes to it: it marks where one document ends.
  [[nodiscard]] virtual std::vector<std::int32_t> encode(std::string_view text) const = 0;
  /// The end-of-text token decodes to nothing. Throws Error for a token outside the vocabulary.
  [[nodiscard]] virtual std::string decode(std::span<const std::int32_t> tokens) const = 0;
  /// The number of tokens, end-of-text included: tokens are 0 .. vocabulary() - 1.
  [[nodiscard]] virtual Index vocabulary() const = 0;
  /// As `prepare_data --tokenizer` and the manifest name it.
  [[nodiscard]] virtual std::string kind() const = 0;
  [[nodiscard]] virtual std::int32_t end_of_text() const = 0;

 protected:
  /// Throws Error when a token is not of this vocabulary.
  void check(std::span<const std::int32_t> tokens) const;
};

inline constexpr const char* kBytes = "bytes";
inline constexpr const char* kSentencePiece = "sentencepiece";

/// Token i < 256 is the byte i, token 256 is end-of-text: a vocabulary of 257. Exact for any bytes.
std::unique_ptr<Tokenizer> make_bytes_tokenizer();

}  // namespace dos::data
