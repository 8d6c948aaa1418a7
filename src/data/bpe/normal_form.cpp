// SPDX-License-Identifier: Apache-2.0
#include "data/bpe/normal_form.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <memory>
#include <utility>

#include "base/error.hpp"
#include "base/types.hpp"

namespace dos::data::bpe {
namespace {

/// Below U+0300, whose first byte this is, every text is in the form.
constexpr unsigned char kFirstByte = 0xCC;

/// The library `tokenizers` normalizes by Unicode 9.0. These are the characters that normalization
/// touches since then, first and last of each range, up to Unicode 15.0: to the library they are
/// unknown, so they neither move nor join.
struct Range {
  utf8proc_int32_t first;
  utf8proc_int32_t last;
};
constexpr std::array<Range, 38> kUnknownToTheLibrary{
    {{0x7FD, 0x7FD},     {0x898, 0x89F},     {0x8CA, 0x8D3},     {0x9FE, 0x9FE},
     {0xC3C, 0xC3C},     {0xD3B, 0xD3C},     {0xEBA, 0xEBA},     {0x1715, 0x1715},
     {0x1ABF, 0x1ACE},   {0x1DF6, 0x1DFA},   {0xA82C, 0xA82C},   {0x10D24, 0x10D27},
     {0x10EAB, 0x10EAC}, {0x10EFD, 0x10EFF}, {0x10F46, 0x10F50}, {0x10F82, 0x10F85},
     {0x11070, 0x11070}, {0x1133B, 0x1133B}, {0x1145E, 0x1145E}, {0x11839, 0x1183A},
     {0x11930, 0x11930}, {0x11938, 0x11938}, {0x1193D, 0x1193E}, {0x11943, 0x11943},
     {0x119E0, 0x119E0}, {0x11A34, 0x11A34}, {0x11A47, 0x11A47}, {0x11A99, 0x11A99},
     {0x11D42, 0x11D42}, {0x11D44, 0x11D45}, {0x11D97, 0x11D97}, {0x11F41, 0x11F42},
     {0x16FF0, 0x16FF1}, {0x1E08F, 0x1E08F}, {0x1E130, 0x1E136}, {0x1E2AE, 0x1E2AE},
     {0x1E2EC, 0x1E2EF}, {0x1E4EC, 0x1E4EF}}};

bool is_known(utf8proc_int32_t character) {
  return std::ranges::none_of(kUnknownToTheLibrary, [character](const Range& range) {
    return character >= range.first && character <= range.last;
  });
}

struct Free {
  void operator()(utf8proc_uint8_t* text) const { std::free(text); }
};

const utf8proc_uint8_t* bytes_of(std::string_view text) {
  return reinterpret_cast<const utf8proc_uint8_t*>(text.data());
}

/// The second and third parts of Hangul that join what stands before them. utf8proc 2.8 lets
/// U+11A7 vanish behind a syllable: it must not see the two together.
bool joins_hangul(utf8proc_int32_t character) {
  return (character >= 0x1161 && character <= 0x1175) ||
         (character >= 0x11A8 && character <= 0x11C2);
}

/// What normalization does with a character.
enum class Role : std::uint8_t {
  kStarts,   ///< does not change, and nothing changes across the place before it
  kChanges,  ///< may change, or join or pass what stands before it
  kApart,    ///< does not change, and nothing changes across it
};

Role role_of(utf8proc_int32_t character) {
  constexpr auto kNoDecomposition = std::numeric_limits<utf8proc_uint16_t>::max();
  if (character >= 0x1160 && character <= 0x11FF)
    return joins_hangul(character) ? Role::kChanges : Role::kStarts;
  const utf8proc_property_t& property = *utf8proc_get_property(character);
  const bool is_mark = property.category == UTF8PROC_CATEGORY_MN ||
                       property.category == UTF8PROC_CATEGORY_MC ||
                       property.category == UTF8PROC_CATEGORY_ME;
  const bool changes = is_mark || property.combining_class != 0 ||
                       (property.decomp_type == 0 && property.decomp_seqindex != kNoDecomposition);
  if (!changes) return Role::kStarts;
  return is_known(character) ? Role::kChanges : Role::kApart;
}

void append_composed(std::string_view text, std::string& result) {
  utf8proc_uint8_t* written = nullptr;
  const utf8proc_ssize_t length =
      utf8proc_map(bytes_of(text), std::ssize(text), &written,
                   static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  const std::unique_ptr<utf8proc_uint8_t, Free> owned(written);
  expect(length >= 0, "cannot normalize the text: {}", utf8proc_errmsg(length));
  result.append(reinterpret_cast<const char*>(written), static_cast<std::size_t>(length));
}

/// Walks over a text's characters.
struct Walk {
  std::string_view text;
  std::size_t position = 0;

  /// The bytes of the character here and its role. Pre: not at the end.
  [[nodiscard]] std::pair<std::size_t, Role> look() const {
    if (static_cast<unsigned char>(text[position]) < kFirstByte)
      return {static_cast<unsigned char>(text[position]) < 0x80 ? 1 : 2, Role::kStarts};
    utf8proc_int32_t character = 0;
    const utf8proc_ssize_t length = utf8proc_iterate(
        bytes_of(text) + position, std::ssize(text) - static_cast<Index>(position), &character);
    require(length > 0, "text to normalize must be UTF-8");
    return {static_cast<std::size_t>(length), role_of(character)};
  }
};

}  // namespace

std::optional<std::string> composed(std::string_view text) {
  std::string result;
  std::size_t copied = 0;   // text before it is in `result`
  std::size_t settled = 0;  // the last character that cannot change what is before it
  for (Walk walk{.text = text}; walk.position < text.size();) {
    const auto [length, role] = walk.look();
    if (role != Role::kChanges) {
      settled = role == Role::kStarts ? walk.position : walk.position + length;
      walk.position += length;
      continue;
    }
    std::size_t end = walk.position + length;
    for (Walk next{.text = text, .position = end}; end < text.size();) {
      const auto [more, next_role] = next.look();
      if (next_role != Role::kChanges) break;
      next.position = end += more;
    }
    std::string spot;
    append_composed(text.substr(settled, end - settled), spot);
    if (spot != text.substr(settled, end - settled)) {
      result += text.substr(copied, settled - copied);
      result += spot;
      copied = end;
    }
    walk.position = settled = end;
  }
  if (copied == 0) return std::nullopt;
  result += text.substr(copied);
  return result;
}

}  // namespace dos::data::bpe
