// SPDX-License-Identifier: Apache-2.0
#include "data/bpe/byte_level_bpe.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "data/bpe/byte_characters.hpp"
#include "data/bpe/merge_table.hpp"
#include "data/bpe/normal_form.hpp"
#include "data/bpe/tokenizer_json.hpp"
#include "data/utf8.hpp"

namespace dos::data {
namespace {

using bpe::Segment;

constexpr bool is_ascii_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/// Where the part of `text` that is to have `wanted` bytes should end: before a space or newline
/// between letters, where every tokenizer begins a piece, else at any character's start.
std::size_t end_of_part(std::string_view text, std::size_t wanted) {
  constexpr std::size_t kReach = 4096;
  if (text.size() <= wanted) return text.size();
  const std::size_t last = std::min(wanted + kReach, text.size() - 1);
  for (std::size_t i = wanted; i < last; ++i)
    if ((text[i] == ' ' || text[i] == '\n') && is_ascii_letter(text[i - 1]) &&
        is_ascii_letter(text[i + 1]))
      return i;
  return utf8_boundary(text, wanted);
}

/// What lies of `ranges` between `first` and `last`, counted from `first`.
std::vector<bpe::ByteRange> ranges_inside(std::span<const bpe::ByteRange> ranges, std::size_t first,
                                          std::size_t last) {
  std::vector<bpe::ByteRange> inside;
  for (const auto& [begin, end] : ranges)
    if (begin < last && end > first)
      inside.emplace_back(std::max(begin, first) - first, std::min(end, last) - first);
  return inside;
}

class ByteLevelBpe final : public Tokenizer {
 public:
  ByteLevelBpe(bpe::TokenizerJson json, std::int32_t end_of_text, const std::string& name)
      : texts_(texts_of(json)),
        merges_(bytes_of(json), name),
        raw_(added(json, false)),
        normalized_(added(json, true)),
        composes_(json.composes),
        cuts_(std::move(json.cuts)),
        first_(std::move(json.first_tokens)),
        end_of_text_(end_of_text) {
    expect(end_of_text >= 0 && end_of_text < vocabulary(),
           "{}: the end-of-text token {} is outside its vocabulary of {}; give its text with "
           "--end-of-text",
           name, end_of_text, vocabulary());
    expect(!json.last_token || *json.last_token == end_of_text,
           "{}: field 'post_processor' puts token {} behind each text, but its end is token {}; "
           "give the text of that token with --end-of-text, or use a tokenizer without it",
           name, json.last_token.value_or(0), end_of_text);
  }

  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text) const override {
    std::vector<std::int32_t> tokens;
    std::size_t taken = 0;
    for (const TextPart& part : parts(text, text.size())) taken = encode_part(part, taken, tokens);
    return tokens;
  }

  [[nodiscard]] std::vector<std::int32_t> encode_quoting(
      std::string_view text, std::span<const TextRange> quoted,
      std::optional<std::int32_t> /*before*/) const override {
    require(utf8_prefix(text) == text.size(), "a text with quotations is UTF-8");
    std::vector<TextPart> all;
    add_text(text, text.size(), all, quoted);
    std::vector<std::int32_t> tokens;
    std::size_t taken = 0;
    for (const TextPart& part : all) taken = encode_part(part, taken, tokens);
    return tokens;
  }

  [[nodiscard]] std::optional<std::int32_t> added_token(std::string_view text) const override {
    const auto raw = raw_.find(text);
    return raw ? raw : normalized_.find(text);
  }

  [[nodiscard]] std::vector<TextPart> parts(std::string_view text,
                                            std::size_t limit) const override {
    std::vector<TextPart> result;
    while (!text.empty()) {
      const std::size_t valid = utf8_prefix(text);
      add_text(text.substr(0, valid), limit, result, {});
      text.remove_prefix(valid);
      for (; !text.empty() && utf8_character(text) == 0; text.remove_prefix(1))
        result.push_back({.token = merges_.token_of(static_cast<unsigned char>(text.front()))});
    }
    return result;
  }

  std::size_t encode_part(const TextPart& part, std::size_t taken,
                          std::vector<std::int32_t>& tokens) const override {
    if (part.token) {
      tokens.push_back(*part.token);
      return taken;
    }
    std::size_t position = taken;
    if (position < part.length) position = cut(0, part.text, position, part.length, tokens);
    return position - part.length;
  }

  [[nodiscard]] std::string decode(std::span<const std::int32_t> tokens) const override {
    check(tokens);
    std::string text;
    for (const std::int32_t token : tokens)
      if (token != end_of_text_) text += texts_[static_cast<std::size_t>(token)];
    return text;
  }

  [[nodiscard]] Index vocabulary() const override { return std::ssize(texts_); }
  [[nodiscard]] std::string kind() const override { return kTokenizerJson; }
  [[nodiscard]] std::int32_t end_of_text() const override { return end_of_text_; }
  [[nodiscard]] std::span<const std::int32_t> begin_of_text() const override { return first_; }

 private:
  static std::vector<std::string> texts_of(const bpe::TokenizerJson& json) {
    std::vector<std::string> texts;
    const auto set = [&](std::int32_t id, std::string text) {
      const auto place = static_cast<std::size_t>(id);
      if (texts.size() <= place) texts.resize(place + 1);
      texts[place] = std::move(text);
    };
    for (const auto& [token, id] : json.vocabulary)
      set(id, bpe::bytes_of_token(token).value_or(token));
    for (const bpe::AddedToken& token : json.added)
      set(token.id, token.special ? "" : bpe::bytes_of_token(token.text).value_or(token.text));
    return texts;
  }

  static bpe::MergeTable::Description bytes_of(const bpe::TokenizerJson& json) {
    bpe::MergeTable::Description result{
        .vocabulary = {}, .merges = {}, .ignore_merges = json.ignore_merges};
    for (const auto& [token, id] : json.vocabulary)
      if (auto bytes = bpe::bytes_of_token(token)) result.vocabulary.emplace_back(*bytes, id);
    for (const auto& [left, right] : json.merges)
      result.merges.emplace_back(bpe::bytes_of_token(left).value_or(left),
                                 bpe::bytes_of_token(right).value_or(right));
    return result;
  }

  static std::vector<bpe::AddedToken> added(const bpe::TokenizerJson& json, bool normalized) {
    std::vector<bpe::AddedToken> result;
    for (bpe::AddedToken token : json.added) {
      if (token.normalized != normalized) continue;
      if (normalized && json.composes) token.text = bpe::composed(token.text).value_or(token.text);
      result.push_back(std::move(token));
    }
    return result;
  }

  /// `text` is UTF-8; of `quoted` see AddedTokens::split().
  void add_text(std::string_view text, std::size_t limit, std::vector<TextPart>& result,
                std::span<const bpe::ByteRange> quoted) const {
    std::vector<Segment> segments;
    raw_.split(text, segments, quoted);
    for (const Segment& segment : segments) {
      if (segment.token != Segment::kText) {
        result.push_back({.token = segment.token});
        continue;
      }
      std::shared_ptr<const std::string> owner;
      std::string_view normal = segment.text;
      if (composes_) {
        if (auto changed = bpe::composed(normal)) {
          owner = std::make_shared<const std::string>(std::move(*changed));
          normal = *owner;
        }
      }
      const auto first = static_cast<std::size_t>(segment.text.data() - text.data());
      auto quoted_here = ranges_inside(quoted, first, first + segment.text.size());
      // Where a quotation has gone is not known: all of the text is taken for one.
      if (owner && !quoted_here.empty()) quoted_here = {{0, normal.size()}};
      add_normalized(normal, owner, limit, result, quoted_here);
    }
  }

  void add_normalized(std::string_view text, const std::shared_ptr<const std::string>& owner,
                      std::size_t limit, std::vector<TextPart>& result,
                      std::span<const bpe::ByteRange> quoted) const {
    std::vector<Segment> segments;
    normalized_.split(text, segments, quoted);
    for (const Segment& segment : segments) {
      if (segment.token != Segment::kText) {
        result.push_back({.token = segment.token});
        continue;
      }
      std::string_view rest = segment.text;
      auto keeper = owner;
      if (cuts_.front().prefix_space && rest.front() != ' ') {
        keeper = std::make_shared<const std::string>(" " + std::string(rest));
        rest = *keeper;
      }
      while (!rest.empty()) {
        const std::size_t length = end_of_part(rest, std::max(limit, std::size_t{4}));
        result.push_back({.text = rest, .length = length, .token = {}, .owner = keeper});
        rest.remove_prefix(length);
      }
    }
  }

  /// Applies the steps from `step` on to the text from `first` on, and appends the tokens of all
  /// pieces that start before `limit`. Returns where the last one ends.
  std::size_t cut(std::size_t step, std::string_view text, std::size_t first, std::size_t limit,
                  std::vector<std::int32_t>& tokens) const {
    if (!cuts_[step].pattern) {
      next(step, text.substr(first), tokens);
      return text.size();
    }
    while (first < limit) {
      const bpe::Extent match = cuts_[step].pattern->find(text, first);
      if (match.first > first && !cuts_[step].only_matches)
        next(step, text.substr(first, match.first - first), tokens);
      // What starts behind the limit is another part's.
      if (match.first >= limit) return match.first;
      if (match.first < match.last)
        next(step, text.substr(match.first, match.last - match.first), tokens);
      first = match.last;
    }
    return first;
  }

  /// Hands a piece of `step` to the one behind it, or to the model.
  void next(std::size_t step, std::string_view piece, std::vector<std::int32_t>& tokens) const {
    ++step;
    if (step == cuts_.size()) return merges_.append(piece, tokens);
    if (cuts_[step].prefix_space && piece.front() != ' ') {
      const std::string longer = " " + std::string(piece);
      cut(step, longer, 0, longer.size(), tokens);
    } else {
      cut(step, piece, 0, piece.size(), tokens);
    }
  }

  std::vector<std::string> texts_;  ///< what the tokens decode to
  bpe::MergeTable merges_;
  bpe::AddedTokens raw_;
  bpe::AddedTokens normalized_;
  bool composes_;
  std::vector<bpe::CutStep> cuts_;
  std::vector<std::int32_t> first_;
  std::int32_t end_of_text_;
};

}  // namespace

std::unique_ptr<Tokenizer> make_byte_level_bpe(const std::string& contents,
                                               std::int32_t end_of_text,
                                               const std::filesystem::path& name) {
  return std::make_unique<ByteLevelBpe>(bpe::parse_tokenizer_json(contents, name.string()),
                                        end_of_text, name.string());
}

}  // namespace dos::data
