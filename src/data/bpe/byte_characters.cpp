// SPDX-License-Identifier: Apache-2.0
#include "data/bpe/byte_characters.hpp"

#include <array>
#include <cstdint>

#include "data/utf8.hpp"

namespace dos::data::bpe {
namespace {

constexpr unsigned kFirstStandIn = 0x100;
constexpr unsigned kCharacters = kFirstStandIn + 68;
constexpr std::int16_t kNone = -1;

constexpr bool stands_for_itself(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

struct Table {
  std::array<std::uint16_t, 256> character{};
  std::array<std::int16_t, kCharacters> byte{};

  constexpr Table() {
    for (std::int16_t& each : byte) each = kNone;
    unsigned next = kFirstStandIn;
    for (unsigned value = 0; value < 256; ++value) {
      const unsigned code = stands_for_itself(value) ? value : next++;
      character[value] = static_cast<std::uint16_t>(code);
      byte[code] = static_cast<std::int16_t>(value);
    }
  }
};

constexpr Table kTable;

}  // namespace

std::optional<std::string> bytes_of_token(std::string_view token) {
  std::string bytes;
  while (!token.empty()) {
    const std::size_t length = utf8_character(token);
    if (length == 0 || length > 2) return std::nullopt;
    unsigned code = static_cast<unsigned char>(token[0]);
    if (length == 2) code = (code & 0x1FU) << 6U | (static_cast<unsigned char>(token[1]) & 0x3FU);
    if (code >= kCharacters || kTable.byte[code] == kNone) return std::nullopt;
    bytes.push_back(static_cast<char>(kTable.byte[code]));
    token.remove_prefix(length);
  }
  return bytes;
}

std::string token_of_bytes(std::string_view bytes) {
  std::string token;
  for (const char c : bytes) {
    const unsigned code = kTable.character[static_cast<unsigned char>(c)];
    if (code < 0x80) {
      token.push_back(static_cast<char>(code));
    } else {
      token.push_back(static_cast<char>(0xC0U | code >> 6U));
      token.push_back(static_cast<char>(0x80U | (code & 0x3FU)));
    }
  }
  return token;
}

}  // namespace dos::data::bpe
