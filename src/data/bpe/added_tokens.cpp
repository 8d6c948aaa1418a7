// SPDX-License-Identifier: Apache-2.0
#include "data/bpe/added_tokens.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include "data/bpe/pattern.hpp"
#include "data/utf8.hpp"

namespace dos::data::bpe {
namespace {

std::size_t first_byte(const AddedToken& token) {
  return static_cast<unsigned char>(token.text.front());
}

/// The last character of a text that is not empty.
std::string_view last_character(std::string_view text) {
  std::size_t first = text.size() - 1;
  while (first > 0 && (static_cast<unsigned char>(text[first]) & 0xC0U) == 0x80U) --first;
  return text.substr(first);
}

bool touches(std::span<const ByteRange> ranges, std::size_t first, std::size_t last) {
  const auto range = std::ranges::upper_bound(ranges, first, {}, &ByteRange::second);
  return range != ranges.end() && range->first < last;
}

bool matches(const Pattern& pattern, std::string_view character) {
  return pattern.find(character, 0).last == character.size() &&
         pattern.find(character, 0).first == 0;
}

/// As the `tokenizers` library has \w.
bool is_of_a_word(std::string_view character) {
  static const Pattern kWord =
      Pattern::pcre2("[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\p{Join_Control}]");
  return matches(kWord, character);
}

bool is_white_space(std::string_view character) {
  static const Pattern kSpace = Pattern::pcre2("\\p{White_Space}");
  return matches(kSpace, character);
}

bool stands_alone(std::string_view before, std::string_view behind) {
  return (before.empty() || !is_of_a_word(last_character(before))) &&
         (behind.empty() || !is_of_a_word(behind.substr(0, utf8_character(behind))));
}

/// Bytes of white space at the end of a text.
std::size_t space_at_end(std::string_view text) {
  const std::size_t all = text.size();
  while (!text.empty() && is_white_space(last_character(text)))
    text.remove_suffix(last_character(text).size());
  return all - text.size();
}

std::size_t space_at_start(std::string_view text) {
  std::size_t length = 0;
  while (length < text.size()) {
    const std::size_t next = utf8_character(text.substr(length));
    if (!is_white_space(text.substr(length, next))) break;
    length += next;
  }
  return length;
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::ranges::sort(tokens_, [](const AddedToken& a, const AddedToken& b) {
    return std::tuple(first_byte(a), b.text.size(), a.text) <
           std::tuple(first_byte(b), a.text.size(), b.text);
  });
  for (const AddedToken& token : tokens_) ++first_[first_byte(token) + 1];
  for (std::size_t i = 1; i < first_.size(); ++i) first_[i] += first_[i - 1];
}

const AddedToken* AddedTokens::token_at(std::string_view text, std::size_t position,
                                        std::span<const ByteRange> quoted) const {
  const std::string_view rest = text.substr(position);
  const auto byte = static_cast<unsigned char>(rest.front());
  for (std::size_t i = first_[byte]; i < first_[byte + 1U]; ++i) {
    const AddedToken& token = tokens_[i];
    if (!rest.starts_with(token.text)) continue;
    if (!token.special || !touches(quoted, position, position + token.text.size())) return &token;
  }
  return nullptr;
}

std::optional<std::int32_t> AddedTokens::find(std::string_view text) const {
  const auto token = std::ranges::find(tokens_, text, &AddedToken::text);
  return token == tokens_.end() ? std::nullopt : std::optional(token->id);
}

void AddedTokens::split(std::string_view text, std::vector<Segment>& segments,
                        std::span<const ByteRange> quoted) const {
  std::size_t done = 0;
  for (std::size_t position = 0; position < text.size() && !empty();) {
    const AddedToken* token = token_at(text, position, quoted);
    if (token == nullptr) {
      ++position;
      continue;
    }
    std::size_t first = position;
    std::size_t last = position + token->text.size();
    position = last;
    if (token->single_word && !stands_alone(text.substr(0, first), text.substr(last))) continue;
    if (token->lstrip) first = std::max(first - space_at_end(text.substr(0, first)), done);
    if (token->rstrip) last += space_at_start(text.substr(last));
    if (done < first) segments.push_back({.text = text.substr(done, first - done)});
    segments.push_back({.text = text.substr(first, last - first), .token = token->id});
    done = last;
  }
  if (done < text.size()) segments.push_back({.text = text.substr(done)});
}

}  // namespace dos::data::bpe
