// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dos::data::bpe {

/// [first, last) of a text.
using ByteRange = std::pair<std::size_t, std::size_t>;

/// A token that stands for a text as a whole, before any merge.
struct AddedToken {
  std::string text;  ///< not empty
  std::int32_t id = 0;
  bool single_word = false;  ///< not beside a letter, digit or the like
  bool lstrip = false;       ///< takes the white space before it
  bool rstrip = false;       ///< takes the white space behind it
  bool normalized = false;   ///< looked for in the normalized text
  bool special = false;      ///< decodes to nothing

  bool operator==(const AddedToken&) const = default;
};

/// What a text is made of: tokens, and text between them.
struct Segment {
  std::string_view text;       ///< not empty
  std::int32_t token = kText;  ///< kText: no token

  static constexpr std::int32_t kText = -1;
};

/// Finds added tokens in text: from the left, the longest first. Immutable.
class AddedTokens {
 public:
  explicit AddedTokens(std::vector<AddedToken> tokens);

  /// Special tokens that touch one of the ranges [first, last) of `quoted`, ascending, are not
  /// found. Pre: `text` is UTF-8.
  void split(std::string_view text, std::vector<Segment>& segments,
             std::span<const ByteRange> quoted = {}) const;
  /// The token written like `text`; nullopt for none.
  [[nodiscard]] std::optional<std::int32_t> find(std::string_view text) const;
  [[nodiscard]] bool empty() const noexcept { return tokens_.empty(); }

 private:
  [[nodiscard]] const AddedToken* token_at(std::string_view text, std::size_t position,
                                           std::span<const ByteRange> quoted) const;

  std::vector<AddedToken> tokens_;        ///< by their first byte, the longest first
  std::array<std::size_t, 257> first_{};  ///< of the tokens that start with a byte
};

}  // namespace dos::data::bpe
