// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace dos::data::bpe {

/// The bytes that a token of a byte-level vocabulary stands for: printable Latin-1 characters are
/// themselves, the other 68 bytes are U+0100 to U+0143 in order. nullopt when a character is none
/// of the 256.
std::optional<std::string> bytes_of_token(std::string_view token);

/// The token that stands for `bytes`: the inverse.
std::string token_of_bytes(std::string_view bytes);

}  // namespace dos::data::bpe
