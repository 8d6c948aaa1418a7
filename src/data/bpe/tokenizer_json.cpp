// SPDX-License-Identifier: Apache-2.0
#include "data/bpe/tokenizer_json.hpp"

#include <algorithm>
#include <unordered_map>

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/json_field.hpp"
#include "data/bpe/pipeline_json.hpp"

namespace dos::data::bpe {
namespace {

using nlohmann::json;
using Ids = std::unordered_map<std::string, std::int32_t>;

/// "" where the field is absent or null.
std::string text_or_none(const JsonField& object, const char* key) {
  return has(object, key) ? object.member(key).text() : std::string();
}

void read_vocabulary(const JsonField& model, TokenizerJson& result) {
  const JsonField field = model.member("vocab");
  // An id far beyond the others would cost memory that the file does not have.
  const Index end = std::min(kMostTokens, 2 * std::ssize(field.object()) + 256);
  std::vector<bool> taken;
  for (const auto& [token, value] : field.object().items()) {
    const bool is_id =
        value.is_number_unsigned() && value.get<std::uint64_t>() < static_cast<std::uint64_t>(end);
    if (!is_id)
      field.fail(fmt::format("gives '{}' the id {}, which is no whole number below {}",
                             one_line(token.substr(0, 80)), excerpt(value), end));
    const auto id = value.get<std::size_t>();
    if (taken.size() <= id) taken.resize(id + 1);
    if (taken[id])
      field.fail(
          fmt::format("gives the id {} twice, to '{}', too", id, one_line(token.substr(0, 80))));
    taken[id] = true;
    result.vocabulary.emplace_back(token, static_cast<std::int32_t>(id));
  }
  if (result.vocabulary.empty()) field.fail("is empty");
}

/// "a b" or ["a", "b"].
std::optional<std::pair<std::string, std::string>> read_merge(const json& value) {
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    const std::size_t space = text.find(' ');
    if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos)
      return std::nullopt;
    return std::pair(text.substr(0, space), text.substr(space + 1));
  }
  if (!value.is_array() || value.size() != 2 || !value[0].is_string() || !value[1].is_string())
    return std::nullopt;
  return std::pair(value[0].get<std::string>(), value[1].get<std::string>());
}

void read_model(const JsonField& model, TokenizerJson& result) {
  // Files of the library's first versions name no type.
  if (has(model, "type")) {
    const std::string type = model.member("type").text();
    if (type != "BPE") model.member("type").fail(unknown(type, "BPE"));
  }
  for (const char* affix : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (!text_or_none(model, affix).empty())
      model.member(affix).fail("is set, which no byte-level BPE has");
  if (has(model, "dropout") && model.member("dropout").number() != 0)
    model.member("dropout").fail("is set: the same text would have different tokens");
  result.ignore_merges = has(model, "ignore_merges") && model.member("ignore_merges").truth();
  read_vocabulary(model, result);
  const JsonField merges = model.member("merges");
  if (!merges.value().is_array()) merges.fail("must be an array");
  for (const json& value : merges.value()) {
    auto merge = read_merge(value);
    if (!merge)
      merges.fail(fmt::format("has {} at place {}, neither \"a b\" nor [\"a\", \"b\"]",
                              excerpt(value), result.merges.size() + 1));
    result.merges.push_back(std::move(*merge));
  }
}

bool flag_of(const JsonField& token, const char* key) {
  return has(token, key) && token.member(key).truth();
}

/// Ids are the library's: the vocabulary's own, or the next free one.
void read_added_tokens(const JsonField& root, TokenizerJson& result) {
  if (!has(root, "added_tokens")) return;
  Ids ids(result.vocabulary.begin(), result.vocabulary.end());
  auto next = static_cast<std::int32_t>(result.vocabulary.size());
  for (const JsonField& field : root.member("added_tokens").elements()) {
    AddedToken token{.text = field.member("content").text(),
                     .single_word = flag_of(field, "single_word"),
                     .lstrip = flag_of(field, "lstrip"),
                     .rstrip = flag_of(field, "rstrip"),
                     .normalized = flag_of(field, "normalized"),
                     .special = flag_of(field, "special")};
    if (token.text.empty()) field.member("content").fail("is empty");
    const auto [entry, is_new] = ids.emplace(token.text, next);
    if (is_new) ++next;
    token.id = entry->second;
    const Index id = field.member("id").index();
    if (id != token.id)
      field.member("id").fail(
          fmt::format("is {}, but '{}' has the id {} in the vocabulary, or is the next "
                      "behind it",
                      id, one_line(token.text), token.id));
    if (std::ranges::any_of(result.added, [&](const auto& a) { return a.text == token.text; }))
      field.member("content").fail(fmt::format("is '{}', as another one's", one_line(token.text)));
    result.added.push_back(std::move(token));
  }
}

}  // namespace

TokenizerJson parse_tokenizer_json(std::string_view text, const std::string& place) {
  const std::string remedy =
      "give the tokenizer.json of a byte-level BPE, such as that of GPT-2, Llama 3 or Qwen";
  const json document = parse_json_object(text, place, remedy);
  const JsonField root(document, place, remedy);
  TokenizerJson result;
  read_model(root.member("model"), result);
  read_added_tokens(root, result);
  read_pipeline(root, place, result);
  return result;
}

}  // namespace dos::data::bpe
