// SPDX-License-Identifier: Apache-2.0
#include "data/sentencepiece.hpp"

#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <algorithm>
#include <array>
#include <unordered_map>

#include "base/error.hpp"
#include "data/sentencepiece_words.hpp"
#include "data/utf8.hpp"

namespace dos::data {
namespace {

namespace sp = sentencepiece;

/// SentencePiece writes a space as this character, so pieces cannot tell one from the other.
constexpr std::string_view kSpaceMark = "\xE2\x96\x81";
/// SentencePiece's trainer skips every sentence that has this character.
constexpr std::string_view kUnknownMark = "\xE2\x96\x85";
/// What a token without text of its own shows as: the Unicode replacement character.
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

constexpr std::size_t kSentenceBytes = 4'096;  // the trainer drops sentences above 4192 bytes

/// The sentences of some texts: runs of characters that may become part of a piece. Control
/// characters (newlines first), the mark above and what is not UTF-8 separate them, and are left
/// to the byte pieces.
class Sentences final : public sp::SentenceIterator {
 public:
  Sentences(std::span<const std::string_view> texts, Index sample_bytes) : texts_(texts) {
    Index bytes = 0;
    for (const std::string_view text : texts) bytes += std::ssize(text);
    stride_ = std::max(Index{1}, ceil_div(bytes, sample_bytes));
    find();
  }

  [[nodiscard]] bool done() const override { return texts_.empty(); }
  void Next() override {
    for (Index i = 0; i < stride_ && !done(); ++i) find();
  }
  [[nodiscard]] const std::string& value() const override { return sentence_; }
  [[nodiscard]] sp::util::Status status() const override { return {}; }

 private:
  static std::size_t usable_character(std::string_view text) {
    const bool usable =
        static_cast<unsigned char>(text.front()) >= 0x20 && !text.starts_with(kUnknownMark);
    return usable ? utf8_character(text) : 0;
  }

  void find() {
    for (; !texts_.empty(); texts_ = texts_.subspan(1), position_ = 0) {
      const std::string_view text = texts_.front();
      while (position_ < text.size() && usable_character(text.substr(position_)) == 0) ++position_;
      const std::size_t first = position_;
      while (position_ < text.size() && position_ - first < kSentenceBytes) {
        const std::size_t length = usable_character(text.substr(position_));
        if (length == 0) break;
        position_ += length;
      }
      if (position_ == first) continue;
      sentence_ = text.substr(first, position_ - first);
      return;
    }
  }

  std::span<const std::string_view> texts_;
  std::size_t position_ = 0;
  Index stride_ = 1;
  std::string sentence_;
};

/// The digits that follow `mark` in `text`, or "" when there are none.
std::string number_after(const std::string& text, std::string_view mark) {
  const std::size_t found = text.find(mark);
  if (found == std::string::npos) return {};
  const std::size_t first = found + mark.size();
  return text.substr(first, text.find_first_not_of("0123456789", first) - first);
}

/// SentencePiece's "Internal: ./src/trainer_interface.cc(580) [...] ..." as something to act on.
[[noreturn]] void fail_training(const std::string& reason, Index vocabulary) {
  if (const auto most = number_after(reason, "set it to a value <= "); !most.empty()) {
    fail(
        "--vocab-size {}: too large for this text, which supports at most {} pieces; lower it or "
        "give more text",
        vocabulary, most);
  }
  const auto given = fmt::format("required_chars. {} vs ", vocabulary);
  if (const auto least = number_after(reason, given); !least.empty()) {
    fail(
        "--vocab-size {}: too small: the bytes, the special pieces and the characters of this "
        "text need {}; raise it",
        vocabulary, least);
  }
  if (reason.find("sentences_.empty()") != std::string::npos) {
    fail(
        "the input has no text to train a tokenizer on; give text files, or use --tokenizer bytes");
  }
  fail("--vocab-size {}: SentencePiece cannot train on this text: {}", vocabulary, reason);
}

class SentencePieceTokenizer final : public Tokenizer {
 public:
  SentencePieceTokenizer(const std::string& model, const std::string& name) {
    const auto loaded = processor_.LoadFromSerializedProto(model);
    expect(!model.empty() && loaded.ok(),
           "{}: not a SentencePiece model; give a .model file that SentencePiece wrote", name);
    expect(processor_.eos_id() >= 0,
           "{}: the model has no end-of-sentence piece to mark where a document ends; train it "
           "with --eos_id, or let prepare_data train one (--vocab-size)",
           name);
    if (!find_byte_pieces()) return;
    const std::string probed = join(pieces_of(kProbe));
    exact_ = probed == kProbe;
    if (exact_)
      words_ = SentencePieceWords::make(processor_, SentencePieceWords::Prefix::kNone);
    else if (probed.front() == ' ' && std::string_view(probed).substr(1) == kProbe)
      words_ = SentencePieceWords::make(processor_, SentencePieceWords::Prefix::kSpace);
  }

  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text) const override {
    std::vector<std::int32_t> tokens;
    if (!exact_) {
      append_pieces(text, tokens);
      return tokens;
    }
    std::size_t first = 0;
    for (std::size_t position = 0; position < text.size();) {
      const std::string_view rest = text.substr(position);
      const std::size_t length = utf8_character(rest);
      const bool by_pieces = length > 0 && !rest.starts_with(kSpaceMark);
      const std::size_t step = std::max(length, std::size_t{1});
      if (!by_pieces) {
        append_pieces(text.substr(first, position - first), tokens);
        for (const char c : rest.substr(0, step)) {
          tokens.push_back(byte_pieces_[static_cast<unsigned char>(c)]);
        }
        first = position + step;
      }
      position += step;
    }
    append_pieces(text.substr(first), tokens);
    return tokens;
  }

  [[nodiscard]] std::string decode(std::span<const std::int32_t> tokens) const override {
    check(tokens);
    if (exact_) return join(tokens);
    std::string text;
    const auto decoded = processor_.Decode(std::vector<int>(tokens.begin(), tokens.end()), &text);
    expect(decoded.ok(), "SentencePiece cannot decode: {}", decoded.ToString());
    return text;
  }

  [[nodiscard]] Index vocabulary() const override { return processor_.GetPieceSize(); }
  [[nodiscard]] std::string kind() const override { return kSentencePiece; }
  [[nodiscard]] std::int32_t end_of_text() const override { return processor_.eos_id(); }

 private:
  bool find_byte_pieces() {
    for (int byte = 0; byte < 256; ++byte) {
      const int piece = processor_.PieceToId(fmt::format("<0x{:02X}>", byte));
      if (!processor_.IsByte(piece)) return false;
      byte_pieces_[static_cast<std::size_t>(byte)] = piece;
      bytes_of_pieces_[piece] = static_cast<char>(byte);
    }
    return true;
  }

  /// A model whose pieces put together are this text adds no first space, squeezes no spaces, trims
  /// none and keeps the ligature, which every normalization but `identity` maps.
  static constexpr std::string_view kProbe = "a  b\n\t\xEF\xAC\x81 ";

  [[nodiscard]] std::vector<std::int32_t> pieces_of(std::string_view text) const {
    std::vector<std::int32_t> tokens;
    data::append_pieces(processor_, text, tokens);
    return tokens;
  }

  void append_pieces(std::string_view text, std::vector<std::int32_t>& tokens) const {
    if (words_)
      words_->append(text, tokens);
    else
      data::append_pieces(processor_, text, tokens);
  }

  [[nodiscard]] std::string join(std::span<const std::int32_t> tokens) const {
    std::string text;
    for (const std::int32_t token : tokens) {
      if (const auto byte = bytes_of_pieces_.find(token); byte != bytes_of_pieces_.end()) {
        text.push_back(byte->second);
      } else if (processor_.IsUnknown(token)) {
        text += kReplacement;
      } else if (!processor_.IsControl(token)) {
        append_piece(processor_.IdToPiece(token), text);
      }
    }
    return text;
  }

  static void append_piece(std::string_view piece, std::string& text) {
    while (!piece.empty()) {
      const bool space = piece.starts_with(kSpaceMark);
      text.push_back(space ? ' ' : piece.front());
      piece.remove_prefix(space ? kSpaceMark.size() : 1);
    }
  }

  sp::SentencePieceProcessor processor_;
  std::array<std::int32_t, 256> byte_pieces_{};
  std::unordered_map<std::int32_t, char> bytes_of_pieces_;
  bool exact_ = false;
  std::unique_ptr<SentencePieceWords> words_;  ///< null where words cannot be encoded apart
};

}  // namespace

std::string train_sentencepiece(std::span<const std::string_view> texts,
                                const SentencePieceTraining& training) {
  expect(training.algorithm == "bpe" || training.algorithm == "unigram",
         "--model-type {}: unknown; use bpe or unigram", training.algorithm);
  expect(training.vocabulary > 0 && training.vocabulary <= 10'000'000,
         "--vocab-size {}: must lie between 1 and 10000000", training.vocabulary);
  require(training.sample_bytes > 0, "a sample needs bytes");
  const std::unordered_map<std::string, std::string> options{
      {"model_type", training.algorithm},
      {"vocab_size", std::to_string(training.vocabulary)},
      {"byte_fallback", "true"},
      {"normalization_rule_name", "identity"},
      {"add_dummy_prefix", "false"},
      {"remove_extra_whitespaces", "false"},
      {"allow_whitespace_only_pieces", "true"},
      {"max_sentence_length", std::to_string(kSentenceBytes + 4)},
      {"unk_id", "0"},
      {"eos_id", "1"},
      {"eos_piece", "<|endoftext|>"},
      {"bos_id", "-1"},
      {"pad_id", "-1"},
      {"num_threads", "16"},  // fixed: unigram's sums, and so the model, depend on it
      {"minloglevel", "3"}};
  Sentences sentences(texts, training.sample_bytes);
  std::string model;
  const auto status = sp::SentencePieceTrainer::Train(options, &sentences, &model);
  if (!status.ok()) fail_training(status.ToString(), training.vocabulary);
  return model;
}

std::unique_ptr<Tokenizer> make_sentencepiece_tokenizer(const std::string& model,
                                                        const std::filesystem::path& name) {
  return std::make_unique<SentencePieceTokenizer>(model, name.string());
}

}  // namespace dos::data
