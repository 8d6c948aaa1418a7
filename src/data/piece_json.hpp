// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <string_view>

#include "data/piece_tokens.hpp"

namespace dos::data {

/// A tokenizer.json with which the library `tokenizers` makes the tokens of
/// make_sentencepiece_tokenizer(model, tokens); nullopt where piece_tokenizer_config() says all,
/// which it does of models of merges that keep text as it is. Of unigram models the library adds
/// probabilities in double precision, SentencePiece in single: of ways to cut a text that are as
/// likely they may take different ones. Text that is written like a control piece is that piece
/// there, and U+2581 is a space. Of models that normalize, it leaves some rare characters of
/// several code points apart, or puts them together. Throws Error as PieceModel does.
std::optional<nlohmann::json> piece_tokenizer_json(const std::string& model,
                                                   const std::optional<PieceTokens>& tokens);

/// What a user has to know of tokens that the library makes in another way by it, in a line; empty
/// where there is nothing but what is said above. Pre: `model` is one.
std::string piece_json_difference(std::string_view model);

/// Whether a tokenizer.json has the pieces of the model under the model's numbers, but for those
/// that stand for no text of their own (control, unknown, bytes), which converters write anew.
/// False also where it cannot be read. Throws Error as PieceModel does.
bool holds_pieces(const std::string& tokenizer_json, const std::string& model);

/// The tokenizer_config.json beside it.
nlohmann::json piece_json_config(const std::string& model,
                                 const std::optional<PieceTokens>& tokens);

}  // namespace dos::data
