// SPDX-License-Identifier: Apache-2.0
#include "data/piece_json.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/json.hpp"
#include "data/piece_model.hpp"

namespace dos::data {
namespace {

using nlohmann::json;

/// What the library needs of a model's description beside its pieces (sentencepiece_model.proto).
struct Description {
  std::uint64_t kind = kUnigram;
  std::string_view characters{};  ///< which text becomes which, in SentencePiece's own form
  bool adds_space = true;
  bool squeezes_spaces = true;
  bool marks_ends = false;        ///< of words: a space is put behind a text
  bool has_users_pieces = false;  ///< which are always found whole

  static constexpr std::uint64_t kUnigram = 1;
  static constexpr std::uint64_t kMerges = 2;
};

/// The next number of a message in the form of protobuf; 0 at its end.
std::uint64_t take_number(std::string_view& message) {
  std::uint64_t number = 0;
  for (unsigned shift = 0; !message.empty() && shift < 64; shift += 7) {
    const auto byte = static_cast<unsigned char>(message.front());
    message.remove_prefix(1);
    number |= std::uint64_t{byte & 0x7FU} << shift;
    if (byte < 0x80U) break;
  }
  return number;
}

/// Calls use(field, number, bytes) for each field of a message that SentencePiece has read.
template <typename Use>
void for_each_field(std::string_view message, const Use& use) {
  while (!message.empty()) {
    const std::uint64_t key = take_number(message);
    std::uint64_t number = 0;
    std::size_t length = 0;
    switch (key & 7U) {
      case 0:
        number = take_number(message);
        break;
      case 1:
        length = 8;
        break;
      case 2:
        length = static_cast<std::size_t>(take_number(message));
        break;
      default:
        length = 4;
        break;
    }
    const std::string_view bytes = message.substr(0, length);
    use(key >> 3U, number, bytes);
    message.remove_prefix(bytes.size());
  }
}

Description describe(std::string_view model) {
  constexpr std::uint64_t kPiece = 1;
  constexpr std::uint64_t kUserDefined = 4;
  constexpr std::uint64_t kTrainer = 2;
  constexpr std::uint64_t kNormalizer = 3;
  Description result;
  for_each_field(model, [&](std::uint64_t part, std::uint64_t, std::string_view message) {
    if (part > kNormalizer) return;
    for_each_field(message, [&](std::uint64_t field, std::uint64_t number, std::string_view bytes) {
      if (part == kPiece && field == 3 && number == kUserDefined) result.has_users_pieces = true;
      if (part == kTrainer && field == 3) result.kind = number;
      if (part == kTrainer && field == 24) result.marks_ends = number != 0;
      if (part != kNormalizer) return;
      if (field == 2) result.characters = bytes;
      if (field == 3) result.adds_space = number != 0;
      if (field == 4) result.squeezes_spaces = number != 0;
    });
  });
  return result;
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    for (std::size_t k = i; k < i + 3; ++k)
      group = group << 8U | (k < bytes.size() ? static_cast<unsigned char>(bytes[k]) : 0U);
    const std::size_t digits = std::min<std::size_t>(bytes.size() - i, 3) + 1;
    for (std::size_t k = 0; k < 4; ++k)
      text.push_back(k < digits ? kDigits[group >> (18U - 6U * static_cast<unsigned>(k)) & 63U]
                                : '=');
  }
  return text;
}

json replace(const char* kind, const char* pattern, const std::string& content) {
  return {{"type", "Replace"}, {"pattern", {{kind, pattern}}}, {"content", content}};
}

/// Where a space is put before a text, by what of the library.
enum class FirstSpace : std::uint8_t {
  kNone,
  kEachText,   ///< between added tokens: "Prepend"
  kFirstText,  ///< of those the first alone: "Metaspace" that finds no spaces any more
  kSpared      ///< only where there is none: "Metaspace"
};

FirstSpace first_space(const Description& description, const PieceTokens& tokens) {
  if (!description.adds_space || tokens.spaceless) return FirstSpace::kNone;
  if (tokens.space_spared) return FirstSpace::kSpared;
  return tokens.space_once ? FirstSpace::kFirstText : FirstSpace::kEachText;
}

/// Whether the model takes a character and its marks, or parts, for the one that they make up.
bool composes(const sentencepiece::SentencePieceProcessor& processor) {
  using Pair = std::pair<std::string_view, std::string_view>;
  constexpr std::array kProbes{Pair("e\u0301", "\u00e9"), Pair("o\u031b\u0300", "\u1edd"),
                               Pair("\u304b\u3099", "\u304c"),
                               Pair("\u1112\u1161\u11ab", "\ud55c")};
  const auto pieces = [&](std::string_view text) {
    std::vector<std::string> result;
    const auto status = processor.Encode(text, &result);
    expect(status.ok(), "SentencePiece cannot encode: {}", status.ToString());
    return result;
  };
  return std::ranges::all_of(
      kProbes, [&](const Pair& probe) { return pieces(probe.first) == pieces(probe.second); });
}

/// The library maps characters one by one, where they are several and fill 6 bytes, else forgets
/// all but the first: they have to be one before. Marks keep their order, as SentencePiece does,
/// and so each composes by itself, with the character before it.
void add_composition(json& steps) {
  constexpr int kMostMarks = 3;
  constexpr const char* kNoCharacter = "\ufdd0";
  for (int mark = 0; mark < kMostMarks; ++mark) {
    steps.push_back(replace("Regex", R"((?<=\p{M})(?=\p{M}))", kNoCharacter));
    steps.push_back({{"type", "NFC"}});
    steps.push_back(replace("String", kNoCharacter, ""));
  }
}

json normalizer_of(const Description& description, bool is_composed, FirstSpace first) {
  json steps = json::array();
  if (is_composed) add_composition(steps);
  if (!description.characters.empty())
    steps.push_back(
        {{"type", "Precompiled"}, {"precompiled_charsmap", base64(description.characters)}});
  if (description.squeezes_spaces) {
    // The library knows the first text by where its first character came from: one stays.
    steps.push_back(
        replace("Regex", first == FirstSpace::kFirstText ? R"( +\z)" : R"(\A +| +\z)", ""));
    steps.push_back(replace("Regex", "(?<= ) +", ""));
  }
  steps.push_back(replace("String", " ", std::string(kSpaceMark)));
  if (first == FirstSpace::kEachText)
    steps.push_back({{"type", "Prepend"}, {"prepend", kSpaceMark}});
  return {{"type", "Sequence"}, {"normalizers", steps}};
}

json metaspace(std::string_view replacement, const char* scheme, bool is_split) {
  return {{"type", "Metaspace"},
          {"replacement", replacement},
          {"prepend_scheme", scheme},
          {"split", is_split}};
}

json split(const std::string& pattern, const char* behavior) {
  return {{"type", "Split"},
          {"pattern", {{"Regex", pattern}}},
          {"behavior", behavior},
          {"invert", false}};
}

/// A space before the first text, which may begin with a mark, becomes its only mark where the
/// model squeezes spaces, else one more; other texts lose theirs there.
void add_first_space(bool squeezes_spaces, json& steps) {
  const std::string mark(kSpaceMark);
  steps.push_back(metaspace(" ", "first", false));
  if (squeezes_spaces) {
    steps.push_back(split(R"(\A)" + mark, "Removed"));
    steps.push_back(split(R"(\A (?=)" + mark + ")", "Removed"));
  }
  steps.push_back(metaspace(kSpaceMark, "never", false));
}

json pre_tokenizer_of(const Description& description, FirstSpace first, const PieceTokens& tokens) {
  json steps = json::array();
  if (first == FirstSpace::kFirstText)
    add_first_space(description.squeezes_spaces, steps);
  else if (first == FirstSpace::kSpared)
    steps.push_back(
        metaspace(kSpaceMark, tokens.space_once ? "first" : "always", tokens.spaces_apart));
  else if (tokens.spaces_apart)
    steps.push_back(metaspace(kSpaceMark, "never", true));
  // The library takes all pieces for such that text may have, those of bytes with the best of
  // scores.
  if (description.kind != Description::kMerges)
    steps.push_back(split("<(?=0x[0-9A-F]{2}>|unk>)", "MergedWithPrevious"));
  if (steps.empty()) return nullptr;
  return {{"type", "Sequence"}, {"pretokenizers", steps}};
}

/// Pieces that the model finds in no text, and what the files beside it have added.
json added_tokens(const PieceModel& model, const PieceTokens& tokens) {
  std::vector<bpe::AddedToken> all = tokens.added;
  const auto& processor = model.processor();
  for (int piece = 0; piece < processor.GetPieceSize(); ++piece)
    if (processor.IsControl(piece) &&
        std::ranges::find(all, piece, &bpe::AddedToken::id) == all.end())
      all.push_back({.text = processor.IdToPiece(piece), .id = piece, .special = true});
  std::ranges::sort(all, {}, &bpe::AddedToken::id);
  json list = json::array();
  for (const bpe::AddedToken& token : all)
    list.push_back({{"id", token.id},
                    {"content", token.text},
                    {"single_word", token.single_word},
                    {"lstrip", token.lstrip},
                    {"rstrip", token.rstrip},
                    {"normalized", false},
                    {"special", token.special}});
  return list;
}

json unigram_of(const sentencepiece::SentencePieceProcessor& processor, bool has_bytes) {
  json list = json::array();
  for (int piece = 0; piece < processor.GetPieceSize(); ++piece)
    list.push_back({processor.IdToPiece(piece), processor.GetScore(piece)});
  return {{"type", "Unigram"},
          {"unk_id", processor.unk_id()},
          {"vocab", std::move(list)},
          {"byte_fallback", has_bytes}};
}

/// The pairs of pieces that make a piece, those of better pieces first.
json merges_of(const sentencepiece::SentencePieceProcessor& processor) {
  std::vector<int> order;
  std::unordered_set<std::string_view> known;
  for (int piece = 0; piece < processor.GetPieceSize(); ++piece) {
    if (processor.IsControl(piece) || processor.IsUnknown(piece) || processor.IsByte(piece))
      continue;
    order.push_back(piece);
    known.insert(processor.IdToPiece(piece));
  }
  std::ranges::stable_sort(order, std::ranges::greater(),
                           [&](int piece) { return processor.GetScore(piece); });
  json merges = json::array();
  for (const int piece : order) {
    const std::string_view whole = processor.IdToPiece(piece);
    for (std::size_t cut = 1; cut < whole.size(); ++cut)
      if (known.contains(whole.substr(0, cut)) && known.contains(whole.substr(cut)))
        merges.push_back({whole.substr(0, cut), whole.substr(cut)});
  }
  return merges;
}

json bpe_of(const sentencepiece::SentencePieceProcessor& processor, bool has_bytes) {
  json vocabulary = json::object();
  for (int piece = 0; piece < processor.GetPieceSize(); ++piece)
    vocabulary[processor.IdToPiece(piece)] = piece;
  return {{"type", "BPE"},
          {"unk_token", processor.IdToPiece(processor.unk_id())},
          {"fuse_unk", true},
          {"byte_fallback", has_bytes},
          {"vocab", std::move(vocabulary)},
          {"merges", merges_of(processor)}};
}

/// What stands before each text: a piece or an added token.
json template_of(const std::optional<std::string>& begin, const PieceTokens& tokens) {
  const auto sequence = [](const char* name, int type) {
    return json{{"Sequence", {{"id", name}, {"type_id", type}}}};
  };
  json single = json::array();
  json special = json::object();
  if (begin) {
    single.push_back({{"SpecialToken", {{"id", *begin}, {"type_id", 0}}}});
    special[*begin] = {{"id", *begin}, {"ids", {*tokens.begin_of_text}}, {"tokens", {*begin}}};
  }
  single.push_back(sequence("A", 0));
  json pair = single;
  pair.push_back(sequence("B", 1));
  return {{"type", "TemplateProcessing"},
          {"single", single},
          {"pair", pair},
          {"special_tokens", special}};
}

std::string text_of(std::int32_t token, const PieceModel& model, const PieceTokens& tokens) {
  const auto added = std::ranges::find(tokens.added, token, &bpe::AddedToken::id);
  return added != tokens.added.end() ? added->text : model.processor().IdToPiece(token);
}

json decoder_of(bool adds_space) {
  json steps = {
      replace("String", kSpaceMark.data(), " "), {{"type", "ByteFallback"}}, {{"type", "Fuse"}}};
  if (adds_space) steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  return {{"type", "Sequence"}, {"decoders", steps}};
}

}  // namespace

std::optional<json> piece_tokenizer_json(const std::string& model,
                                         const std::optional<PieceTokens>& tokens) {
  const Description description = describe(model);
  const PieceTokens known = tokens.value_or(PieceTokens{});
  const bool merges = description.kind == Description::kMerges;
  const bool says_spaces = known.space_spared || known.spaceless || known.spaces_apart;
  const bool keeps_text =
      !description.adds_space && !description.squeezes_spaces && description.characters.empty();
  if (merges && keeps_text && !says_spaces) return std::nullopt;
  if (!merges && description.kind != Description::kUnigram) return std::nullopt;
  const PieceModel pieces(model, "tokenizer.model");
  const auto& processor = pieces.processor();
  const FirstSpace first = first_space(description, known);
  const bool has_bytes = processor.IsByte(processor.PieceToId("<0x00>"));
  const bool is_composed = !description.characters.empty() && composes(processor);
  std::optional<std::string> begin;
  if (known.begin_of_text) begin = text_of(*known.begin_of_text, pieces, known);
  return json{{"version", "1.0"},
              {"truncation", nullptr},
              {"padding", nullptr},
              {"added_tokens", added_tokens(pieces, known)},
              {"normalizer", normalizer_of(description, is_composed, first)},
              {"pre_tokenizer", pre_tokenizer_of(description, first, known)},
              {"post_processor", template_of(begin, known)},
              {"decoder", decoder_of(first != FirstSpace::kNone)},
              {"model", merges ? bpe_of(processor, has_bytes) : unigram_of(processor, has_bytes)}};
}

std::string piece_json_difference(std::string_view model) {
  const Description description = describe(model);
  if (description.marks_ends)
    return "the tokenizer puts spaces behind words, not before them: transformers makes other "
           "tokens";
  if (description.has_users_pieces && description.kind == Description::kMerges)
    return "the tokenizer has pieces that its user defined: transformers may make others of them";
  if (description.characters.empty()) return "";
  return "the tokenizer normalizes text: where characters have unusual marks of their own "
         "transformers may make other tokens";
}

bool holds_pieces(const std::string& tokenizer_json, const std::string& model) {
  const PieceModel pieces(model, "tokenizer.model");
  const sentencepiece::SentencePieceProcessor& processor = pieces.processor();
  const std::optional<json> document = try_parse_json_object(tokenizer_json);
  const json::json_pointer place("/model/vocab");
  if (!document || !document->contains(place)) return false;
  const json& vocabulary = document->at(place);
  // {text: number} of merges, [[text, score], ...] of unigram models.
  const auto has = [&](int piece) {
    const std::string& text = processor.IdToPiece(piece);
    if (vocabulary.is_object()) return vocabulary.value(text, json()) == json(piece);
    const auto entry = static_cast<std::size_t>(piece);
    return entry < vocabulary.size() && vocabulary[entry].is_array() &&
           !vocabulary[entry].empty() && vocabulary[entry].front() == json(text);
  };
  if (!vocabulary.is_object() && !vocabulary.is_array()) return false;
  for (int piece = 0; piece < processor.GetPieceSize(); ++piece)
    if (!processor.IsControl(piece) && !processor.IsUnknown(piece) && !processor.IsByte(piece) &&
        !has(piece))
      return false;
  return true;
}

json piece_json_config(const std::string& model, const std::optional<PieceTokens>& tokens) {
  const PieceModel pieces(model, "tokenizer.model");
  const PieceTokens known = tokens.value_or(PieceTokens{});
  const int own_begin = pieces.processor().bos_id();
  const std::int32_t begin = known.begin_of_text.value_or(own_begin);
  const std::int32_t end = known.end_of_text.value_or(pieces.processor().eos_id());
  return {{"tokenizer_class", "PreTrainedTokenizerFast"},
          {"clean_up_tokenization_spaces", false},
          {"bos_token", begin < 0 ? json() : json(text_of(begin, pieces, known))},
          {"eos_token", text_of(end, pieces, known)}};
}

}  // namespace dos::data
