// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "base/json_field.hpp"
#include "data/bpe/tokenizer_json.hpp"

namespace dos::data::bpe {

/// Whether an object has the field, and it is not null.
bool has(const JsonField& object, const char* key);

/// What is wrong with a part of an unknown type.
std::string unknown(std::string_view type, std::string_view known);

/// Reads what happens before and behind the model: normalizer, pre_tokenizer, post_processor,
/// decoder. Pre: the vocabulary and the added tokens are there.
void read_pipeline(const JsonField& root, const std::string& place, TokenizerJson& result);

}  // namespace dos::data::bpe
