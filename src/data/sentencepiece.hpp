// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/types.hpp"
#include "data/piece_tokens.hpp"
#include "data/tokenizer.hpp"

namespace dos::data {

struct SentencePieceTraining {
  Index vocabulary = 0;                   ///< pieces, exactly; 256 are bytes and 2 special
  std::string algorithm = "bpe";          ///< bpe or unigram
  Index sample_bytes = Index{128} << 20;  ///< of longer text, evenly spaced lines are used
};

/// Trains a model on `texts` and returns it in SentencePiece's own file format. The same texts
/// give the same model. No normalization, no added or dropped spaces, byte fallback: a tokenizer
/// of this model reproduces any input. Throws Error, naming the limit, when the text supports only
/// fewer or needs more pieces.
std::string train_sentencepiece(std::span<const std::string_view> texts,
                                const SentencePieceTraining& training);

/// A tokenizer from a model's bytes; `name` is the file that messages speak of. Models with byte
/// fallback that neither normalize nor touch spaces, such as ours, are exact for any bytes, even
/// where they are not UTF-8; others encode and decode as SentencePiece itself does. Beside `tokens`
/// the tokens are those of the model alone. Throws Error when this is not a model, when it has no
/// end-of-sentence piece, or when `tokens` are those of another model.
std::unique_ptr<Tokenizer> make_sentencepiece_tokenizer(
    const std::string& model, const std::filesystem::path& name,
    const std::optional<PieceTokens>& tokens = std::nullopt);

/// The same of a file, with what read_piece_tokens() finds beside it.
std::unique_ptr<Tokenizer> open_sentencepiece_tokenizer(const std::filesystem::path& file);

}  // namespace dos::data
