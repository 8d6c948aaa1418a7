// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>

namespace dos::data {

/// Bytes of the well-formed UTF-8 character that starts `text` (1 to 4), or 0 when there is none:
/// empty text, a stray or missing continuation byte, an overlong form, a surrogate, or a value
/// above U+10FFFF.
std::size_t utf8_character(std::string_view text);

/// Bytes at the start of `text` for which decoders write one U+FFFD, as Unicode recommends: the
/// longest beginning of a character, else one. Pre: no character starts `text`, which has bytes.
std::size_t utf8_wrong(std::string_view text);

/// Bytes at the start of `text` that are well-formed UTF-8.
std::size_t utf8_prefix(std::string_view text);

/// Whether all of `text` is well-formed UTF-8.
bool is_utf8(std::string_view text);

/// The largest position <= `wanted` that does not split a UTF-8 character of `text`. Where the
/// text is not UTF-8 this is `wanted` itself. Pre: wanted <= text.size().
std::size_t utf8_boundary(std::string_view text, std::size_t wanted);

/// The end of the first part of `text` for work in parts of at most `limit` bytes: behind the last
/// newline within the limit, or at a character boundary where there is none. Pre: limit >= 4.
std::size_t line_part(std::string_view text, std::size_t limit);

}  // namespace dos::data
