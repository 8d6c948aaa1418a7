// SPDX-License-Identifier: Apache-2.0
#include "data/sentencepiece.hpp"

#include <sentencepiece_trainer.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "base/error.hpp"
#include "base/file.hpp"
#include "data/bpe/added_tokens.hpp"
#include "data/piece_model.hpp"
#include "data/utf8.hpp"

namespace dos::data {
namespace {

namespace sp = sentencepiece;

/// SentencePiece's trainer skips every sentence that has this character.
constexpr std::string_view kUnknownMark = "\xE2\x96\x85";

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
  SentencePieceTokenizer(const std::string& model, const std::string& name,
                         const std::optional<PieceTokens>& given)
      : model_(model, name),
        added_(given ? given->added : std::vector<bpe::AddedToken>()),
        special_(with_controls(given ? given->added : std::vector<bpe::AddedToken>())),
        count_(model_.processor().GetPieceSize()) {
    const PieceTokens tokens = given.value_or(PieceTokens{.count = count_});
    expect(tokens.count == count_,
           "{}: the model has {} pieces, {} were expected: put the model that belongs there back",
           name, count_, tokens.count);
    space_once_ = tokens.space_once;
    space_spared_ = tokens.space_spared;
    spaceless_always_ = tokens.spaceless;
    spaces_apart_ = tokens.spaces_apart;
    if (space_once_ || space_spared_ || spaceless_always_ || spaces_apart_ || model_.adds_space())
      spaceless_.emplace(PieceModel::without_space(model, name));
    vocabulary_ = count_;
    for (const bpe::AddedToken& token : tokens.added) {
      texts_[token.id] = token.special ? "" : token.text;
      vocabulary_ = std::max(vocabulary_, Index{token.id} + 1);
    }
    end_ = tokens.end_of_text.value_or(model_.processor().eos_id());
    if (texts_.contains(end_)) texts_[end_] = "";
    if (tokens.begin_of_text) begin_.push_back(*tokens.begin_of_text);
    check(begin_);
    check(std::span(&end_, 1));
  }

  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text) const override {
    std::vector<std::int32_t> tokens;
    for (const TextPart& part : segments(text, added_, {})) encode_part(part, 0, tokens);
    return tokens;
  }

  [[nodiscard]] std::vector<std::int32_t> encode_quoting(
      std::string_view text, std::span<const TextRange> quoted,
      std::optional<std::int32_t> before) const override {
    std::vector<TextPart> parts = segments(text, special_, quoted);
    if (before && !parts.empty() && !parts.front().token)
      parts.front().goes_on =
          goes_on(parts.front().text, /*is_first=*/false) || !is_special(*before);
    std::vector<std::int32_t> tokens;
    for (const TextPart& part : parts) encode_part(part, 0, tokens);
    return tokens;
  }

  [[nodiscard]] std::optional<std::int32_t> added_token(std::string_view text) const override {
    return special_.find(text);
  }

  [[nodiscard]] std::vector<TextPart> parts(std::string_view text,
                                            std::size_t limit) const override {
    std::vector<TextPart> result;
    for (const TextPart& segment : segments(text, added_, {})) {
      if (segment.token) {
        result.push_back(segment);
        continue;
      }
      std::string_view rest = segment.text;
      for (bool goes_on = segment.goes_on; !rest.empty(); goes_on = true) {
        const std::size_t length =
            model_.keeps_text() ? model_.part(rest, limit) : line_part(rest, limit);
        // What a model changes that does not keep text is changed in each part.
        result.push_back({.text = rest.substr(0, length),
                          .length = length,
                          .goes_on = goes_on && (model_.keeps_text() || segment.goes_on)});
        rest.remove_prefix(length);
      }
    }
    return result;
  }

  std::size_t encode_part(const TextPart& part, std::size_t taken,
                          std::vector<std::int32_t>& tokens) const override {
    require(taken == 0, "no token is of two parts");
    if (part.token) {
      tokens.push_back(*part.token);
      return 0;
    }
    const PieceModel& model = part.goes_on && spaceless_ ? *spaceless_ : model_;
    const std::string_view text = part.text.substr(0, part.length);
    if (spaces_apart_)
      encode_apart(model, text, tokens);
    else
      model.encode(text, tokens);
    return 0;
  }

  [[nodiscard]] std::string decode(std::span<const std::int32_t> tokens) const override {
    check(tokens);
    std::string text;
    bool is_first = true;
    while (!tokens.empty()) {
      const auto run = std::ranges::find_if(tokens, [&](std::int32_t t) { return is_added(t); });
      const auto length = static_cast<std::size_t>(run - tokens.begin());
      if (length > 0) {
        const bool spaceless = spaceless_always_ || (space_once_ && !is_first);
        (spaceless ? *spaceless_ : model_).decode(tokens.first(length), text);
        is_first = false;
      }
      tokens = tokens.subspan(length);
      if (tokens.empty()) break;
      if (const auto own = texts_.find(tokens.front()); own != texts_.end()) text += own->second;
      is_first = is_first && is_begin(tokens.front());
      tokens = tokens.subspan(1);
    }
    return text;
  }

  [[nodiscard]] Index vocabulary() const override { return vocabulary_; }
  [[nodiscard]] std::string kind() const override { return kSentencePiece; }
  [[nodiscard]] std::int32_t end_of_text() const override { return end_; }
  [[nodiscard]] std::span<const std::int32_t> begin_of_text() const override { return begin_; }

 private:
  /// The added tokens, and the model's pieces that no text is made of.
  [[nodiscard]] std::vector<bpe::AddedToken> with_controls(
      std::vector<bpe::AddedToken> added) const {
    const auto& processor = model_.processor();
    for (int piece = 0; piece < processor.GetPieceSize(); ++piece) {
      const std::string& text = processor.IdToPiece(piece);
      const auto is_same = [&](const auto& other) { return other.text == text; };
      if (processor.IsControl(piece) && !text.empty() && std::ranges::none_of(added, is_same))
        added.push_back({.text = text, .id = piece, .special = true});
    }
    return added;
  }

  /// Whether it is one of `special_`.
  [[nodiscard]] bool is_special(std::int32_t token) const {
    return is_added(token) || model_.processor().IsControl(token);
  }
  /// Whether the token is none that the model is to decode.
  [[nodiscard]] bool is_added(std::int32_t token) const {
    return token >= count_ || texts_.contains(token);
  }
  [[nodiscard]] bool is_begin(std::int32_t token) const {
    return std::ranges::find(begin_, token) != begin_.end();
  }

  /// Whether the model is to put no space before this text between added tokens.
  [[nodiscard]] bool goes_on(std::string_view text, bool is_first) const {
    const bool has_space = text.starts_with(' ') || text.starts_with(kSpaceMark);
    return spaceless_always_ || (space_once_ && !is_first) || (space_spared_ && has_space);
  }

  /// The text cut before each space; the first piece is encoded with `model`.
  void encode_apart(const PieceModel& model, std::string_view text,
                    std::vector<std::int32_t>& tokens) const {
    const PieceModel* next = &model;
    std::size_t first = 0;
    std::size_t mark = text.find(kSpaceMark, 1);
    for (std::size_t space = text.find(' ', 1); std::min(space, mark) < text.size();) {
      const std::size_t end = std::min(space, mark);
      next->encode(text.substr(first, end - first), tokens);
      next = &*spaceless_;
      first = end;
      if (space == end) space = text.find(' ', end + 1);
      if (mark == end) mark = text.find(kSpaceMark, end + 1);
    }
    next->encode(text.substr(first), tokens);
  }

  /// Tokens of `known`, and the texts between them.
  [[nodiscard]] std::vector<TextPart> segments(std::string_view text, const bpe::AddedTokens& known,
                                               std::span<const TextRange> quoted) const {
    std::vector<TextPart> result;
    const auto add_text = [&](std::string_view more) {
      if (more.empty()) return;
      if (!result.empty() && !result.back().token) {
        // Views of one text, one behind the other.
        const std::size_t length = result.back().length + more.size();
        result.back().text = {result.back().text.data(), length};
        result.back().length = length;
      } else {
        result.push_back(
            {.text = more, .length = more.size(), .goes_on = goes_on(more, result.empty())});
      }
    };
    if (known.empty()) add_text(std::exchange(text, {}));
    while (!text.empty()) {
      const std::size_t valid = utf8_prefix(text);
      std::vector<bpe::Segment> found;
      known.split(text.substr(0, valid), found, quoted);
      for (const bpe::Segment& segment : found) {
        if (segment.token == bpe::Segment::kText)
          add_text(segment.text);
        else
          result.push_back({.token = segment.token});
      }
      text.remove_prefix(valid);
      const std::size_t wrong = text.empty() ? 0 : utf8_wrong(text);
      add_text(text.substr(0, wrong));
      text.remove_prefix(wrong);
    }
    return result;
  }

  PieceModel model_;
  std::optional<PieceModel> spaceless_{};
  bpe::AddedTokens added_;
  bpe::AddedTokens special_;  ///< those, and control pieces: with_controls()
  Index count_;
  bool space_once_ = false;
  bool space_spared_ = false;
  bool spaceless_always_ = false;
  bool spaces_apart_ = false;
  Index vocabulary_ = 0;
  std::unordered_map<std::int32_t, std::string> texts_;  ///< of added tokens
  std::int32_t end_ = 0;
  std::vector<std::int32_t> begin_;
};

}  // namespace

std::string train_sentencepiece(std::span<const std::string_view> texts,
                                const SentencePieceTraining& training) {
  expect(training.algorithm == "bpe" || training.algorithm == "unigram",
         "--model-type {}: unknown; use bpe or unigram", training.algorithm);
  expect(training.vocabulary > 1 && training.vocabulary <= 10'000'000,
         "--vocab-size {}: must lie between 2 and 10000000", training.vocabulary);
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
                                                        const std::filesystem::path& name,
                                                        const std::optional<PieceTokens>& tokens) {
  return std::make_unique<SentencePieceTokenizer>(model, name.string(), tokens);
}

std::unique_ptr<Tokenizer> open_sentencepiece_tokenizer(const std::filesystem::path& file) {
  const std::string model = read_text(file);
  return make_sentencepiece_tokenizer(model, file, read_piece_tokens(model, file));
}

}  // namespace dos::data
