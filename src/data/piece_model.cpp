// SPDX-License-Identifier: Apache-2.0
#include "data/piece_model.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "data/utf8.hpp"

namespace dos::data {
namespace {

/// What a token without text of its own shows as: the Unicode replacement character.
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
/// A model whose pieces put together are this text adds no first space, squeezes no spaces, trims
/// none and keeps the ligature, which every normalization but `identity` maps.
constexpr std::string_view kProbe = "a  b\n\t\xEF\xAC\x81 ";
/// Behind a model's bytes: its normalizer_spec.add_dummy_prefix is false. A later value of a field
/// counts, as in all of protobuf.
constexpr std::string_view kAddsNoSpace("\x1A\x02\x18\x00", 4);
/// A part is at most this many times as long as asked for.
constexpr std::size_t kPartReach = 16;

void append_piece(std::string_view piece, std::string& text) {
  while (!piece.empty()) {
    const bool space = piece.starts_with(kSpaceMark);
    text.push_back(space ? ' ' : piece.front());
    piece.remove_prefix(space ? kSpaceMark.size() : 1);
  }
}

bool goes_on_after_a_line(std::string_view piece) {
  const std::size_t newline = piece.find('\n');
  return newline != std::string_view::npos &&
         piece.find_first_not_of('\n', newline) != std::string_view::npos;
}

}  // namespace

PieceModel::PieceModel(const std::string& model, const std::string& name)
    : PieceModel(model, name, /*may_be_exact=*/true) {}

PieceModel PieceModel::without_space(const std::string& model, const std::string& name) {
  return {model + std::string(kAddsNoSpace), name, /*may_be_exact=*/false};
}

PieceModel::PieceModel(const std::string& model, const std::string& name, bool may_be_exact)
    : processor_(std::make_unique<sentencepiece::SentencePieceProcessor>()) {
  const auto loaded = processor_->LoadFromSerializedProto(model);
  expect(!model.empty() && loaded.ok(),
         "{}: not a SentencePiece model; give a .model file that SentencePiece wrote", name);
  expect(processor_->eos_id() >= 0,
         "{}: the model has no end-of-sentence piece to mark where a document ends; train it "
         "with --eos_id, or let prepare_data train one (--vocab-size)",
         name);
  for (int piece = 0; piece < processor_->GetPieceSize(); ++piece)
    lines_end_ = lines_end_ && !goes_on_after_a_line(processor_->IdToPiece(piece));
  if (!find_byte_pieces()) return;
  std::vector<std::int32_t> pieces;
  append_pieces(*processor_, kProbe, pieces);
  const std::string probed = join(pieces);
  keeps_ = probed == kProbe;
  exact_ = keeps_ && may_be_exact;
  adds_space_ = probed.front() == ' ' && std::string_view(probed).substr(1) == kProbe;
  if (keeps_text())
    words_ = SentencePieceWords::make(*processor_, keeps_ ? SentencePieceWords::Prefix::kNone
                                                          : SentencePieceWords::Prefix::kSpace);
}

void PieceModel::encode(std::string_view text, std::vector<std::int32_t>& tokens) const {
  if (!exact_) return append(text, tokens);
  std::size_t first = 0;
  for (std::size_t position = 0; position < text.size();) {
    const std::string_view rest = text.substr(position);
    const std::size_t length = utf8_character(rest);
    const bool by_pieces = length > 0 && !rest.starts_with(kSpaceMark);
    const std::size_t step = std::max(length, std::size_t{1});
    if (!by_pieces) {
      append(text.substr(first, position - first), tokens);
      for (const char c : rest.substr(0, step))
        tokens.push_back(byte_pieces_[static_cast<unsigned char>(c)]);
      first = position + step;
    }
    position += step;
  }
  append(text.substr(first), tokens);
}

void PieceModel::decode(std::span<const std::int32_t> tokens, std::string& text) const {
  if (exact_) {
    text += join(tokens);
    return;
  }
  std::string more;
  const auto decoded = processor_->Decode(std::vector<int>(tokens.begin(), tokens.end()), &more);
  expect(decoded.ok(), "SentencePiece cannot decode: {}", decoded.ToString());
  text += more;
}

std::size_t PieceModel::part(std::string_view text, std::size_t limit) const {
  require(limit >= 4, "a part must hold any character");
  if (text.size() <= limit) return text.size();
  for (std::size_t place = limit; place > 0; --place)
    if (can_cut(text, place)) return place;
  const std::size_t end = std::min(text.size(), kPartReach * limit);
  for (std::size_t place = limit + 1; place < end; ++place)
    if (can_cut(text, place)) return place;
  return end == text.size() ? end : utf8_boundary(text, end);
}

bool PieceModel::can_cut(std::string_view text, std::size_t place) const {
  const std::string_view before = text.substr(0, place);
  if (before.ends_with('\n')) return lines_end_ && text[place] != '\n';
  return words_ != nullptr && text[place] == ' ' && !before.ends_with(' ') &&
         !before.ends_with(kSpaceMark) &&
         text.find_first_not_of(' ', place) != std::string_view::npos;
}

bool PieceModel::find_byte_pieces() {
  for (int byte = 0; byte < 256; ++byte) {
    const int piece = processor_->PieceToId(fmt::format("<0x{:02X}>", byte));
    if (!processor_->IsByte(piece)) return false;
    byte_pieces_[static_cast<std::size_t>(byte)] = piece;
    bytes_of_pieces_[piece] = static_cast<char>(byte);
  }
  return true;
}

void PieceModel::append(std::string_view text, std::vector<std::int32_t>& tokens) const {
  if (words_)
    words_->append(text, tokens);
  else
    append_pieces(*processor_, text, tokens);
}

std::string PieceModel::join(std::span<const std::int32_t> tokens) const {
  std::string text;
  for (const std::int32_t token : tokens) {
    if (const auto byte = bytes_of_pieces_.find(token); byte != bytes_of_pieces_.end()) {
      text.push_back(byte->second);
    } else if (processor_->IsUnknown(token)) {
      text += kReplacement;
    } else if (!processor_->IsControl(token)) {
      append_piece(processor_->IdToPiece(token), text);
    }
  }
  return text;
}

}  // namespace dos::data
