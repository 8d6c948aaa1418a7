// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sentencepiece_processor.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/sentencepiece_words.hpp"

namespace dos::data {

/// SentencePiece writes a space as this character, so pieces cannot tell one from the other.
inline constexpr std::string_view kSpaceMark = "\xE2\x96\x81";

/// A SentencePiece model: text to its pieces and back, without tokens that it does not have.
/// Members are thread-safe.
class PieceModel {
 public:
  /// Throws Error, naming the file `name`, when `model` is none, or has no end-of-sentence piece.
  PieceModel(const std::string& model, const std::string& name);
  /// The same model, but it puts no space before a text.
  static PieceModel without_space(const std::string& model, const std::string& name);

  /// Appends the tokens of a text. Any bytes are exact where the model allows it.
  void encode(std::string_view text, std::vector<std::int32_t>& tokens) const;
  /// Appends what the tokens stand for. Pre: they are pieces.
  void decode(std::span<const std::int32_t> tokens, std::string& text) const;

  /// Whether a space before a text is all that the model adds to it or takes from it.
  [[nodiscard]] bool adds_space() const noexcept { return adds_space_; }
  /// Whether the model changes nothing but that.
  [[nodiscard]] bool keeps_text() const noexcept { return adds_space_ || keeps_; }
  /// Where to cut a text so that the tokens of both parts are those of the whole, if nothing is put
  /// before the second: at about `limit` bytes. Where there is no such place in reach, tokens at
  /// the cut differ. Pre: limit >= 4, keeps_text().
  [[nodiscard]] std::size_t part(std::string_view text, std::size_t limit) const;

  [[nodiscard]] const sentencepiece::SentencePieceProcessor& processor() const noexcept {
    return *processor_;
  }

 private:
  PieceModel(const std::string& model, const std::string& name, bool may_be_exact);
  [[nodiscard]] bool find_byte_pieces();
  void append(std::string_view text, std::vector<std::int32_t>& tokens) const;
  [[nodiscard]] std::string join(std::span<const std::int32_t> tokens) const;
  [[nodiscard]] bool can_cut(std::string_view text, std::size_t place) const;

  std::unique_ptr<sentencepiece::SentencePieceProcessor> processor_;
  std::array<std::int32_t, 256> byte_pieces_{};
  std::unordered_map<std::int32_t, char> bytes_of_pieces_;
  bool keeps_ = false;
  bool exact_ = false;
  bool adds_space_ = false;
  bool lines_end_ = true;                      ///< no piece goes on behind the end of a line
  std::unique_ptr<SentencePieceWords> words_;  ///< null where words cannot be encoded apart
};

}  // namespace dos::data
