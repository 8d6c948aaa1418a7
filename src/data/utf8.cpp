// SPDX-License-Identifier: Apache-2.0
#include "data/utf8.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace dos::data {
namespace {

constexpr unsigned byte_at(std::string_view text, std::size_t position) {
  return static_cast<unsigned char>(text[position]);
}

constexpr bool is_continuation(unsigned byte) {
  return (byte & 0xC0U) == 0x80U;
}

/// The length that the first byte announces, or 0 when no character starts with it.
constexpr std::size_t announced_length(unsigned first) {
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return 2;
  if (first >= 0xE0 && first <= 0xEF) return 3;
  if (first >= 0xF0 && first <= 0xF4) return 4;
  return 0;
}

/// Whether the second byte makes an overlong form, a surrogate or a value above U+10FFFF.
constexpr bool out_of_range(unsigned first, unsigned second) {
  return (first == 0xE0 && second < 0xA0) || (first == 0xED && second >= 0xA0) ||
         (first == 0xF0 && second < 0x90) || (first == 0xF4 && second >= 0x90);
}

}  // namespace

std::size_t utf8_character(std::string_view text) {
  if (text.empty()) return 0;
  const unsigned first = byte_at(text, 0);
  const std::size_t length = announced_length(first);
  if (length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if (!is_continuation(byte_at(text, i))) return 0;
  }
  return length > 1 && out_of_range(first, byte_at(text, 1)) ? 0 : length;
}

std::size_t utf8_wrong(std::string_view text) {
  require(!text.empty() && utf8_character(text) == 0, "a text that begins with no character");
  const std::size_t length = announced_length(byte_at(text, 0));
  const std::size_t most = std::min(length, text.size());
  std::size_t end = 1;
  if (most > 1 && out_of_range(byte_at(text, 0), byte_at(text, 1))) return end;
  while (end < most && is_continuation(byte_at(text, end))) ++end;
  return end;
}

std::size_t utf8_prefix(std::string_view text) {
  std::size_t position = 0;
  while (position < text.size()) {
    const bool is_ascii = byte_at(text, position) < 0x80;
    const std::size_t length = is_ascii ? 1 : utf8_character(text.substr(position));
    if (length == 0) break;
    position += length;
  }
  return position;
}

bool is_utf8(std::string_view text) {
  return utf8_prefix(text) == text.size();
}

std::size_t utf8_boundary(std::string_view text, std::size_t wanted) {
  require(wanted <= text.size(), "boundary outside the text");
  for (std::size_t back = 1; back <= 3 && back <= wanted; ++back) {
    if (utf8_character(text.substr(wanted - back)) > back) return wanted - back;
  }
  return wanted;
}

std::size_t line_part(std::string_view text, std::size_t limit) {
  require(limit >= 4, "a part must hold any character");
  if (text.size() <= limit) return text.size();
  const std::size_t newline = text.substr(0, limit).rfind('\n');
  return newline != std::string_view::npos ? newline + 1 : utf8_boundary(text, limit);
}

}  // namespace dos::data
