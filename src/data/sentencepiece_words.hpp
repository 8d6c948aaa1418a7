// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace sentencepiece {
class SentencePieceProcessor;
}

namespace dos::data {

/// Encodes text with a SentencePiece model word by word, a word being spaces and what follows them
/// up to the next space. Words repeat: what a word has become is kept, so that the library sees
/// most of them once. Thread-safe.
class SentencePieceWords {
 public:
  /// What a model puts before the first word of a text.
  enum class Prefix { kNone, kSpace };

  /// Null when the tokens of a text need not be those of its words: when a piece goes on after a
  /// space, or when the model is not one of merges (a unigram model adds rounded probabilities over
  /// the whole text).
  /// @pre The model does not normalize, keeps all spaces, adds `prefix` and has a piece for every
  /// byte. `processor` lives as long as the result.
  static std::unique_ptr<SentencePieceWords> make(
      const sentencepiece::SentencePieceProcessor& processor, Prefix prefix);

  /// Appends what the processor makes of the text. Throws Error if it cannot.
  void append(std::string_view text, std::vector<std::int32_t>& tokens) const;

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>()(text);
    }
  };
  struct Shard {
    std::shared_mutex mutex;
    std::unordered_map<std::string, std::vector<std::int32_t>, Hash, std::equal_to<>> words;
  };

  SentencePieceWords(const sentencepiece::SentencePieceProcessor& processor, Prefix prefix)
      : processor_(processor), prefix_(prefix) {}

  void append_word(std::string_view word, std::vector<std::int32_t>& tokens) const;

  const sentencepiece::SentencePieceProcessor& processor_;
  Prefix prefix_;
  mutable std::array<Shard, 16> shards_;
};

/// Appends the tokens of `text` as the library has them. Throws Error if it cannot.
void append_pieces(const sentencepiece::SentencePieceProcessor& processor, std::string_view text,
                   std::vector<std::int32_t>& tokens);

}  // namespace dos::data
