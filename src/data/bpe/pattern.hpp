// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace dos::data::bpe {

/// A place in a text, in bytes; first <= last.
struct Extent {
  std::size_t first = 0;
  std::size_t last = 0;

  bool operator==(const Extent&) const = default;
};

/// A pattern that cuts text into pieces, matched by PCRE2 as the `tokenizers` library (Oniguruma)
/// matches it. What the two engines read differently is refused; `\s` is Unicode's White_Space.
/// What a pattern matches at a place depends on the text from there on only. Immutable: members
/// are thread-safe.
class Pattern {
 public:
  /// A regular expression of literals, escapes (\s \S \d \D \r \n \t \p{L} \P{Lu} and characters
  /// that mean something), classes, groups, look-ahead, quantifiers and '|'. Throws Error, starting
  /// with `place`, for anything else, and for a pattern that matches nothing at all ("").
  static Pattern regex(const std::string& expression, const std::string& place);
  /// One of this program's own, in PCRE2's words.
  static Pattern pcre2(const std::string& expression);
  /// The text itself.
  static Pattern literal(const std::string& text, const std::string& place);

  Pattern(Pattern&& other) noexcept;
  Pattern& operator=(Pattern&&) = delete;
  ~Pattern();

  /// The first match in `text` that starts at `from` or later; {text.size(), text.size()} where
  /// there is none. Matches are never empty. Pre: `text` is UTF-8, `from` is at a character's
  /// start. Throws Error when the pattern takes too many steps.
  [[nodiscard]] Extent find(std::string_view text, std::size_t from) const;

 private:
  struct Compiled;
  Pattern(const std::string& expression, unsigned options, std::string place);

  std::unique_ptr<Compiled> compiled_;
};

/// GPT-2's expression, which the pre-tokenizer ByteLevel stands for.
inline constexpr const char* kGpt2Expression =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

}  // namespace dos::data::bpe
