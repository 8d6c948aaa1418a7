// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace dos::data::bpe {

/// `expression`, which Oniguruma reads in a tokenizer.json, as PCRE2 reads it. Throws Error,
/// starting with `place` and naming the position, for what the two read differently or is not known
/// here.
std::string translate_expression(const std::string& expression, const std::string& place);

}  // namespace dos::data::bpe
