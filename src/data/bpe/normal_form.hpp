// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace dos::data::bpe {

/// `text` in Unicode's normalization form C, as the library `tokenizers` makes it: by Unicode 9.0,
/// characters added later stay as they are. nullopt when it is in that form already. Pre: `text` is
/// UTF-8.
std::optional<std::string> composed(std::string_view text);

}  // namespace dos::data::bpe
