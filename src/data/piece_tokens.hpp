// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/json_field.hpp"
#include "base/types.hpp"
#include "data/bpe/added_tokens.hpp"

namespace dos::data {

/// What the files beside a SentencePiece model say of its tokens. As JSON:
///   {"count": 32000, "begin_of_text": 1, "end_of_text": 32001, "space_once": true,
///    "added": [{"id": 32001, "content": "<|im_end|>", "special": true}]}
/// where "count" alone must be there; "space_spared", "spaceless" and "spaces_apart" may be, and
/// "lstrip", "rstrip" and "single_word" of added tokens.
struct PieceTokens {
  Index count = 0;                              ///< pieces of the model
  std::optional<std::int32_t> begin_of_text{};  ///< that stands before each text
  std::optional<std::int32_t> end_of_text{};    ///< none: the model's own
  /// The space that the model puts before a text is not put behind added tokens, too.
  bool space_once = false;
  bool space_spared = false;             ///< nor before a text that begins with a space
  bool spaceless = false;                ///< nor before any
  bool spaces_apart = false;             ///< no token goes over the start of a space
  std::vector<bpe::AddedToken> added{};  ///< what is written like one of them is it

  bool operator==(const PieceTokens&) const = default;
};

/// Of the model `model`, which is the file `path`, as the LlamaTokenizer of `transformers` reads
/// tokenizer_config.json, and added_tokens.json where that has no tokens; without the former a text
/// begins with the model's begin-of-sentence piece if it has one. Pieces that the configuration
/// names (bos_token, ...) are added tokens, too. Of a tokenizer.json, which `transformers` prefers,
/// where spaces are put, added tokens and, unless "add_bos_token" says it, whether texts begin with
/// a token are read; else `space_once` is what "legacy" says. Throws Error, naming file and field,
/// when they are damaged or name a token that is not there, and as PieceModel does.
PieceTokens read_piece_tokens(const std::string& model, const std::filesystem::path& path);

/// A tokenizer_config.json with which the LlamaTokenizer of `transformers` makes the tokens of
/// make_sentencepiece_tokenizer(model, tokens). Throws Error as PieceModel does.
nlohmann::ordered_json piece_tokenizer_config(const std::string& model,
                                              const std::optional<PieceTokens>& tokens);

/// Throws Error when a member is missing, of another type or out of range.
PieceTokens parse_piece_tokens(const JsonField& object);
nlohmann::ordered_json to_json(const PieceTokens& tokens);

}  // namespace dos::data
