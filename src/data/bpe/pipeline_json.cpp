// SPDX-License-Identifier: Apache-2.0
#include "data/bpe/pipeline_json.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/json.hpp"

namespace dos::data::bpe {
namespace {

/// Calls `read` with each part: of a Sequence, those inside it, in order.
template <class Read>
void each_part(const JsonField& part, const char* list, const Read& read) {
  if (part.member("type").text() != "Sequence") return read(part);
  for (const JsonField& inner : part.member(list).elements()) each_part(inner, list, read);
}

void read_normalizer(const JsonField& part, TokenizerJson& result) {
  const std::string type = part.member("type").text();
  if (type != "NFC") part.member("type").fail(unknown(type, "NFC and Sequence"));
  result.composes = true;
}

CutStep read_split(const JsonField& part, const std::string& place) {
  const JsonField pattern = part.member("pattern");
  CutStep step;
  if (has(pattern, "Regex"))
    step.pattern.emplace(Pattern::regex(pattern.member("Regex").text(), place));
  else
    step.pattern.emplace(Pattern::literal(pattern.member("String").text(), place));
  const std::string behavior = part.member("behavior").text();
  const bool inverts = has(part, "invert") && part.member("invert").truth();
  step.only_matches = behavior == "Removed" && inverts;
  if (behavior != "Isolated" && !step.only_matches)
    part.member("behavior")
        .fail(fmt::format("is '{}'{}; known are Isolated, and Removed with 'invert': true",
                          one_line(behavior), inverts ? "" : " without 'invert'"));
  return step;
}

/// Numbers, or each character of them: Rust's is_numeric() is the categories Nd, Nl and No.
CutStep read_digits(const JsonField& part, const std::string& place) {
  const bool apart = has(part, "individual_digits") && part.member("individual_digits").truth();
  CutStep step;
  step.pattern.emplace(Pattern::regex(apart ? R"(\p{N})" : R"(\p{N}+)", place));
  return step;
}

CutStep read_byte_level(const JsonField& part, const std::string& place) {
  CutStep step;
  step.prefix_space = part.member("add_prefix_space").truth();
  const bool cuts = !has(part, "use_regex") || part.member("use_regex").truth();
  if (cuts) step.pattern.emplace(Pattern::regex(kGpt2Expression, place));
  return step;
}

void read_pre_tokenizer(const JsonField& root, const std::string& place, TokenizerJson& result) {
  const JsonField field = root.member("pre_tokenizer");
  bool in_bytes = false;
  each_part(field, "pretokenizers", [&](const JsonField& part) {
    const std::string type = part.member("type").text();
    if (in_bytes) part.member("type").fail("follows ByteLevel, which must be the last");
    in_bytes = type == "ByteLevel";
    if (in_bytes)
      result.cuts.push_back(read_byte_level(part, place));
    else if (type == "Split")
      result.cuts.push_back(read_split(part, place));
    else if (type == "Digits")
      result.cuts.push_back(read_digits(part, place));
    else
      part.member("type").fail(unknown(type, "Split, Digits, ByteLevel and Sequence"));
  });
  if (!in_bytes) field.fail("has no ByteLevel at its end");
  if (std::ranges::none_of(result.cuts, [](const CutStep& cut) { return cut.pattern.has_value(); }))
    field.fail("cuts the text nowhere");
}

/// The ids of a special token of a template.
std::vector<std::int32_t> ids_of(const JsonField& part, const std::string& name,
                                 std::size_t vocabulary) {
  std::vector<std::int32_t> ids;
  const JsonField field = part.member("special_tokens").member(name).member("ids");
  for (const Index id : field.indices()) {
    if (id >= static_cast<Index>(vocabulary))
      field.fail(fmt::format("has {}, outside the vocabulary of {}", id, vocabulary));
    ids.push_back(static_cast<std::int32_t>(id));
  }
  return ids;
}

void read_template(const JsonField& part, std::size_t vocabulary, TokenizerJson& result) {
  bool behind = false;
  for (const JsonField& piece : part.member("single").elements()) {
    if (has(piece, "Sequence")) {
      behind = true;
      continue;
    }
    const std::string name = piece.member("SpecialToken").member("id").text();
    for (const std::int32_t id : ids_of(part, name, vocabulary)) {
      if (behind && result.last_token)
        piece.fail("is a second token behind the text, where one at most can stand");
      if (behind)
        result.last_token = id;
      else
        result.first_tokens.push_back(id);
    }
  }
}

}  // namespace

bool has(const JsonField& object, const char* key) {
  const auto found = object.object().find(key);
  return found != object.value().end() && !found->is_null();
}

std::string unknown(std::string_view type, std::string_view known) {
  return fmt::format("is '{}', which this program does not know (known: {})", one_line(type),
                     known);
}

void read_pipeline(const JsonField& root, const std::string& place, TokenizerJson& result) {
  if (has(root, "normalizer"))
    each_part(root.member("normalizer"), "normalizers",
              [&](const JsonField& part) { read_normalizer(part, result); });
  read_pre_tokenizer(root, place, result);
  std::size_t vocabulary = 0;
  for (const auto& [token, id] : result.vocabulary)
    vocabulary = std::max(vocabulary, static_cast<std::size_t>(id) + 1);
  for (const AddedToken& token : result.added)
    vocabulary = std::max(vocabulary, static_cast<std::size_t>(token.id) + 1);
  if (has(root, "post_processor"))
    each_part(root.member("post_processor"), "processors", [&](const JsonField& part) {
      const std::string type = part.member("type").text();
      if (type == "TemplateProcessing")
        read_template(part, vocabulary, result);
      else if (type != "ByteLevel")
        part.member("type").fail(unknown(type, "ByteLevel, TemplateProcessing and Sequence"));
    });
  const JsonField decoder = root.member("decoder");
  const std::string type = decoder.member("type").text();
  if (type != "ByteLevel") decoder.member("type").fail(unknown(type, "ByteLevel"));
}

}  // namespace dos::data::bpe
