// SPDX-License-Identifier: Apache-2.0
#include "data/piece_tokens.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <utility>

#include "base/json.hpp"
#include "data/bpe/pipeline_json.hpp"
#include "data/bpe/tokenizer_json.hpp"
#include "data/missing.hpp"
#include "data/piece_model.hpp"
#include "data/tokenizer.hpp"

namespace dos::data {
namespace {

using nlohmann::json;

constexpr const char* kCopyRemedy = "copy the file again, or take it out";

/// A JSON file beside the model; an empty object where there is none.
struct SideDocument {
  SideDocument(const std::filesystem::path& model, const char* name)
      : path(model.parent_path() / name),
        document(is_missing(path) ? json::object() : read_json_object(path, kCopyRemedy)) {}

  [[nodiscard]] JsonField root() const { return {document, path.string(), kCopyRemedy}; }

  std::filesystem::path path;
  json document;
};

bool flag_or(const JsonField& object, const char* key, bool otherwise) {
  return bpe::has(object, key) ? object.member(key).truth() : otherwise;
}

/// A token's text, which may stand in an object.
std::string text_of_token(const JsonField& token) {
  return token.value().is_object() ? token.member("content").text() : token.text();
}

std::int32_t parse_id(const JsonField& field) {
  const Index id = field.index();
  if (id >= bpe::kMostTokens) field.fail(fmt::format("must be less than {}", bpe::kMostTokens));
  return static_cast<std::int32_t>(id);
}

/// `id` of the key of a map from ids.
std::int32_t parse_id(const std::string& key, const JsonField& map) {
  std::int32_t id = -1;
  const char* end = key.data() + key.size();
  const auto parsed = std::from_chars(key.data(), end, id);
  if (parsed.ec != std::errc() || parsed.ptr != end || id < 0 || id >= bpe::kMostTokens)
    map.fail(fmt::format("has the key '{}', which is no whole number below {}", one_line(key),
                         bpe::kMostTokens));
  return id;
}

bpe::AddedToken parse_added(const JsonField& field, std::int32_t id) {
  bpe::AddedToken token{.text = field.member("content").text(),
                        .id = id,
                        .single_word = flag_or(field, "single_word", false),
                        .lstrip = flag_or(field, "lstrip", false),
                        .rstrip = flag_or(field, "rstrip", false),
                        .special = flag_or(field, "special", false)};
  if (token.text.empty()) field.member("content").fail("is empty");
  return token;
}

void add_piece(bpe::AddedToken token, const JsonField& field, std::vector<bpe::AddedToken>& added) {
  const auto is_same = [&](const auto& other) {
    return other.id == token.id || other.text == token.text;
  };
  if (std::ranges::any_of(added, is_same))
    field.fail(fmt::format("gives '{}' the id {}, and one of the two to another token, too",
                           one_line(token.text), token.id));
  added.push_back(std::move(token));
}

/// The texts of tokens that have a part to play.
void add_token_names(const JsonField& root, std::set<std::string>& names) {
  for (const auto& [key, value] : root.object().items()) {
    if (key == "additional_special_tokens" && value.is_array())
      for (const JsonField& token : root.member(key).elements()) names.insert(text_of_token(token));
    else if (key.ends_with("_token") && (value.is_string() || value.is_object()))
      names.insert(text_of_token(root.member(key)));
  }
}

/// Of older folders: from texts to ids.
void read_added_file(const std::filesystem::path& model, const SideDocument& config,
                     std::vector<bpe::AddedToken>& added) {
  const SideDocument file(model, "added_tokens.json");
  const SideDocument map(model, "special_tokens_map.json");
  std::set<std::string> special;
  for (const SideDocument* document : {&config, &map}) add_token_names(document->root(), special);
  const JsonField root = file.root();
  for (const auto& [text, id] : root.object().items()) {
    if (text.empty()) root.fail("has an empty token");
    add_piece({.text = text, .id = parse_id(root.member(text)), .special = special.contains(text)},
              root, added);
  }
}

/// The token that the configuration calls `key`; `own` where it does not say, none where it says
/// that there is none.
std::optional<std::int32_t> token_named(const JsonField& root, const char* key, int own,
                                        const PieceModel& model,
                                        const std::vector<bpe::AddedToken>& added) {
  if (!root.object().contains(key)) return own >= 0 ? std::optional(own) : std::nullopt;
  if (!bpe::has(root, key)) return std::nullopt;
  const std::string text = text_of_token(root.member(key));
  if (text.empty()) return std::nullopt;
  const auto found = std::ranges::find(added, text, &bpe::AddedToken::text);
  if (found != added.end()) return found->id;
  const auto& processor = model.processor();
  const int piece = processor.PieceToId(text);
  if (processor.IdToPiece(piece) != text)
    root.member(key).fail(fmt::format(
        "is '{}', which is neither a piece of the model nor an added token", one_line(text)));
  return piece;
}

/// Those of a tokenizer.json that have not been told already.
void read_json_tokens(const JsonField& root, std::vector<bpe::AddedToken>& added) {
  if (!bpe::has(root, "added_tokens")) return;
  for (const JsonField& field : root.member("added_tokens").elements()) {
    bpe::AddedToken token = parse_added(field, parse_id(field.member("id")));
    const auto is_same = [&](const auto& a) { return a.text == token.text && a.id == token.id; };
    if (std::ranges::none_of(added, is_same)) add_piece(std::move(token), field, added);
  }
}

/// Pieces that the configuration gives a part to play (bos_token, ...) are found in texts, too.
void add_named_pieces(const JsonField& root, const PieceModel& model,
                      std::vector<bpe::AddedToken>& added) {
  std::set<std::string> names;
  add_token_names(root, names);
  const auto& processor = model.processor();
  for (const std::string& text : names) {
    const int piece = processor.PieceToId(text);
    const auto is_same = [&](const auto& a) { return a.text == text || a.id == piece; };
    if (!text.empty() && processor.IdToPiece(piece) == text && std::ranges::none_of(added, is_same))
      added.push_back({.text = text, .id = piece, .special = true});
  }
}

/// The step `name` of a tokenizer.json, or those of its sequence; what is none is left out.
std::vector<json> steps_of(const json& document, const char* name) {
  if (!document.contains(name) || !document.at(name).is_object()) return {};
  const json& own = document.at(name);
  std::vector<json> steps{own};
  for (const json& several : own)
    if (several.is_array())
      for (const json& each : several)
        if (each.is_object()) steps.push_back(each);
  return steps;
}

/// What a tokenizer.json says of the space before texts; `tokens` stays where it says nothing.
void read_spaces(const json& document, PieceTokens& tokens) {
  for (const json& step : steps_of(document, "normalizer"))
    if (step.value("type", json()) == "Prepend") {
      tokens.space_once = false;
      return;
    }
  for (const json& step : steps_of(document, "pre_tokenizer")) {
    if (step.value("type", json()) != "Metaspace") continue;
    // Of older files `add_prefix_space` is what says it.
    const bool adds = step.value("add_prefix_space", json()) != false;
    const json scheme = step.value("prepend_scheme", json(adds ? "always" : "never"));
    tokens.space_once = scheme == "first";
    // One that puts spaces where marks are already finds none to spare.
    const bool finds_spaces = step.value("replacement", json(kSpaceMark)) != " ";
    tokens.space_spared = scheme != "never" && finds_spaces;
    tokens.spaceless = scheme == "never";
    tokens.spaces_apart = step.value("split", json()) != false;
    return;
  }
}

/// Whether a tokenizer.json puts a token before texts; nullopt where it has no template.
std::optional<bool> begins_of_json(const json& document) {
  for (const json& step : steps_of(document, "post_processor")) {
    if (step.value("type", json()) != "TemplateProcessing") continue;
    const json single = step.value("single", json());
    return single.is_array() && !single.empty() && single.front().is_object() &&
           single.front().contains("SpecialToken");
  }
  return std::nullopt;
}

/// The token that stands before texts.
std::optional<std::int32_t> begin_of_text(const JsonField& root, const json& document,
                                          const PieceModel& model, const PieceTokens& tokens) {
  if (!flag_or(root, "add_bos_token", begins_of_json(document).value_or(true))) return std::nullopt;
  return token_named(root, "bos_token", model.processor().bos_id(), model, tokens.added);
}

}  // namespace

PieceTokens read_piece_tokens(const std::string& model, const std::filesystem::path& path) {
  const PieceModel pieces(model, path.string());
  const SideDocument config(path, "tokenizer_config.json");
  const SideDocument whole(path, kTokenizerJson);
  const JsonField root = config.root();
  PieceTokens tokens{.count = pieces.processor().GetPieceSize()};
  if (bpe::has(root, "added_tokens_decoder")) {
    const JsonField map = root.member("added_tokens_decoder");
    for (const auto& [id, value] : map.object().items())
      add_piece(parse_added(map.member(id), parse_id(id, map)), map, tokens.added);
  } else {
    read_added_file(path, config, tokens.added);
  }
  read_json_tokens(whole.root(), tokens.added);
  add_named_pieces(root, pieces, tokens.added);
  std::ranges::sort(tokens.added, {}, &bpe::AddedToken::id);
  tokens.space_once = !flag_or(root, "legacy", true);
  read_spaces(whole.document, tokens);
  tokens.begin_of_text = begin_of_text(root, whole.document, pieces, tokens);
  const int own_end = pieces.processor().eos_id();
  const auto end = token_named(root, "eos_token", own_end, pieces, tokens.added);
  if (end && *end != own_end) tokens.end_of_text = end;
  return tokens;
}

PieceTokens parse_piece_tokens(const JsonField& object) {
  PieceTokens tokens{.count = object.member("count").index()};
  const auto token = [&](const char* key) {
    return bpe::has(object, key) ? std::optional(parse_id(object.member(key))) : std::nullopt;
  };
  tokens.begin_of_text = token("begin_of_text");
  tokens.end_of_text = token("end_of_text");
  tokens.space_once = flag_or(object, "space_once", false);
  tokens.space_spared = flag_or(object, "space_spared", false);
  tokens.spaceless = flag_or(object, "spaceless", false);
  tokens.spaces_apart = flag_or(object, "spaces_apart", false);
  if (!bpe::has(object, "added")) return tokens;
  for (const JsonField& field : object.member("added").elements())
    add_piece(parse_added(field, parse_id(field.member("id"))), field, tokens.added);
  return tokens;
}

nlohmann::ordered_json to_json(const PieceTokens& tokens) {
  nlohmann::ordered_json object{{"count", tokens.count}};
  if (tokens.begin_of_text) object["begin_of_text"] = *tokens.begin_of_text;
  if (tokens.end_of_text) object["end_of_text"] = *tokens.end_of_text;
  if (tokens.space_once) object["space_once"] = true;
  if (tokens.space_spared) object["space_spared"] = true;
  if (tokens.spaceless) object["spaceless"] = true;
  if (tokens.spaces_apart) object["spaces_apart"] = true;
  for (const bpe::AddedToken& token : tokens.added) {
    nlohmann::ordered_json entry{{"id", token.id}, {"content", token.text}};
    if (token.single_word) entry["single_word"] = true;
    if (token.lstrip) entry["lstrip"] = true;
    if (token.rstrip) entry["rstrip"] = true;
    if (token.special) entry["special"] = true;
    object["added"].push_back(std::move(entry));
  }
  return object;
}

nlohmann::ordered_json piece_tokenizer_config(const std::string& model,
                                              const std::optional<PieceTokens>& tokens) {
  const PieceModel pieces(model, "tokenizer.model");
  const auto& processor = pieces.processor();
  const PieceTokens known = tokens.value_or(PieceTokens{});
  const auto text = [&](std::int32_t token) -> nlohmann::ordered_json {
    const auto added = std::ranges::find(known.added, token, &bpe::AddedToken::id);
    if (added != known.added.end()) return added->text;
    if (token < 0) return nullptr;
    return processor.IdToPiece(token);
  };
  nlohmann::ordered_json config{
      {"tokenizer_class", "LlamaTokenizer"},
      {"add_bos_token", known.begin_of_text.has_value()},
      {"add_eos_token", false},
      {"add_prefix_space", pieces.adds_space() && !known.spaceless},
      {"legacy", !known.space_once},
      {"clean_up_tokenization_spaces", false},
      {"bos_token", text(known.begin_of_text.value_or(processor.bos_id()))},
      {"eos_token", text(known.end_of_text.value_or(processor.eos_id()))},
      {"unk_token", text(processor.unk_id())}};
  for (const bpe::AddedToken& token : known.added)
    config["added_tokens_decoder"][std::to_string(token.id)] = {
        {"content", token.text},  {"lstrip", token.lstrip},           {"normalized", false},
        {"rstrip", token.rstrip}, {"single_word", token.single_word}, {"special", token.special}};
  return config;
}

}  // namespace dos::data
