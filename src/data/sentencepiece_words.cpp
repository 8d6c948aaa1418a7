// SPDX-License-Identifier: Apache-2.0
#include "data/sentencepiece_words.hpp"

#include <sentencepiece_processor.h>

#include <cmath>
#include <mutex>

#include "base/error.hpp"

namespace dos::data {
namespace {

namespace sp = sentencepiece;

constexpr std::string_view kMark = "\xE2\x96\x81";  ///< a space in pieces
constexpr std::size_t kLongestKept = 48;            ///< bytes of a word: longer ones hardly repeat
constexpr std::size_t kMostKept = 1 << 16;          ///< words of a shard, some 8 MB

/// Whether a piece that may be of text has a space after something else.
bool goes_on_after_a_space(std::string_view piece) {
  while (piece.starts_with(kMark)) piece.remove_prefix(kMark.size());
  return piece.find(kMark) != std::string_view::npos;
}

/// Whether the model merges pairs: the score of a piece is its rank then, a whole number.
bool merges(const sp::SentencePieceProcessor& processor, int piece) {
  const float score = processor.GetScore(piece);
  return score == std::nearbyint(score);
}

/// Where the word at the start of a text ends: at the first space after it that another word
/// follows.
std::size_t end_of_word(std::string_view text) {
  const std::size_t first = text.find_first_not_of(' ');
  const std::size_t space = text.find(' ', first);
  if (space == std::string_view::npos) return text.size();
  return text.find_first_not_of(' ', space) == std::string_view::npos ? text.size() : space;
}

}  // namespace

void append_pieces(const sp::SentencePieceProcessor& processor, std::string_view text,
                   std::vector<std::int32_t>& tokens) {
  if (text.empty()) return;
  std::vector<int> pieces;
  const auto encoded = processor.Encode(text, &pieces);
  expect(encoded.ok(), "SentencePiece cannot encode: {}", encoded.ToString());
  tokens.insert(tokens.end(), pieces.begin(), pieces.end());
}

std::unique_ptr<SentencePieceWords> SentencePieceWords::make(
    const sp::SentencePieceProcessor& processor, Prefix prefix) {
  for (int piece = 0; piece < processor.GetPieceSize(); ++piece) {
    if (processor.IsControl(piece) || processor.IsUnknown(piece) || processor.IsByte(piece))
      continue;
    if (!merges(processor, piece) || goes_on_after_a_space(processor.IdToPiece(piece)))
      return nullptr;
  }
  return std::unique_ptr<SentencePieceWords>(new SentencePieceWords(processor, prefix));
}

void SentencePieceWords::append(std::string_view text, std::vector<std::int32_t>& tokens) const {
  // A space to the model, and no space to us.
  if (text.find(kMark) != std::string_view::npos) {
    append_pieces(processor_, text, tokens);
    return;
  }
  for (bool is_first = true; !text.empty(); is_first = false) {
    const std::size_t end = end_of_word(text);
    std::string_view word = text.substr(0, end);
    // The model puts back what is taken here.
    if (prefix_ == Prefix::kSpace && !is_first) word.remove_prefix(1);
    append_word(word, tokens);
    text.remove_prefix(end);
  }
}

void SentencePieceWords::append_word(std::string_view word,
                                     std::vector<std::int32_t>& tokens) const {
  if (word.size() > kLongestKept) {
    append_pieces(processor_, word, tokens);
    return;
  }
  Shard& shard = shards_[Hash()(word) % shards_.size()];
  {
    const std::shared_lock lock(shard.mutex);
    if (const auto found = shard.words.find(word); found != shard.words.end()) {
      tokens.insert(tokens.end(), found->second.begin(), found->second.end());
      return;
    }
  }
  std::vector<std::int32_t> made;
  append_pieces(processor_, word, made);
  tokens.insert(tokens.end(), made.begin(), made.end());
  const std::scoped_lock lock(shard.mutex);
  if (shard.words.size() < kMostKept) shard.words.try_emplace(std::string(word), std::move(made));
}

}  // namespace dos::data
