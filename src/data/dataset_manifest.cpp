// SPDX-License-Identifier: Apache-2.0
#include "data/dataset_manifest.hpp"

#include <xxhash.h>

#include <limits>

#include "base/checksum.hpp"
#include "base/error.hpp"
#include "base/json.hpp"
#include "base/json_field.hpp"
#include "base/json_text.hpp"
#include "data/missing.hpp"
#include "data/tokenizer.hpp"

namespace dos::data {
namespace {

using nlohmann::json;

constexpr const char* kFormat = "dos.dataset";
constexpr int kVersion = 3;
/// Of data sets without masks: programs that know no masks read them.
constexpr int kPlainVersion = 2;

const json& member(const json& object, const char* key) {
  expect(object.is_object() && object.contains(key), "'{}' is missing", key);
  return object.at(key);
}

std::string read_string(const json& object, const char* key) {
  const json& value = member(object, key);
  expect(value.is_string(), "'{}' must be a string, is {}", key, excerpt(value));
  return value.get<std::string>();
}

Index read_count(const json& object, const char* key, Index minimum) {
  const json& value = member(object, key);
  // get<Index>() would truncate 1.5 and wrap above 2^63 - 1.
  expect(value.is_number_integer() &&
             (!value.is_number_unsigned() ||
              value.get<std::uint64_t>() <= std::uint64_t{std::numeric_limits<Index>::max()}) &&
             value.get<Index>() >= minimum,
         "'{}' must be a whole number of at least {}, is {}", key, minimum, excerpt(value));
  return value.get<Index>();
}

/// Of the token file `split`.
TokenSums read_sums(const json& object, const char* split, Index vocabulary) {
  const auto text = read_string(member(object, "xxh3"), split);
  const std::optional<std::uint64_t> checksum = parse_hex(text);
  expect(checksum.has_value(), "'xxh3.{}' must be 16 hexadecimal digits, is '{}'", split, text);
  const Index largest = read_count(member(object, "largest"), split, 0);
  expect(largest < vocabulary, "'largest.{}' is {}, outside the vocabulary of {}", split, largest,
         vocabulary);
  return {largest, *checksum};
}

std::uint64_t read_checksum(const json& object, const char* split) {
  const auto text = read_string(object, "xxh3");
  const std::optional<std::uint64_t> checksum = parse_hex(text);
  expect(checksum.has_value(), "'masks.{}.xxh3' must be 16 hexadecimal digits, is '{}'", split,
         text);
  return *checksum;
}

MaskSums read_mask(const json& object, const char* split, Index tokens) {
  const json& mask = member(member(object, "masks"), split);
  const Index targets = read_count(mask, "targets", 0);
  expect(targets <= tokens, "'masks.{}.targets' is {}, of {} tokens", split, targets, tokens);
  return {targets, read_checksum(mask, split)};
}

void read_masks(const json& object, DatasetManifest& manifest) {
  manifest.train_mask = read_mask(object, "train", manifest.train_tokens);
  manifest.val_mask = read_mask(object, "val", manifest.val_tokens);
}

void read_chat(const json& object, DatasetManifest& manifest) {
  const json& chat = member(object, "chat");
  const JsonField field(member(chat, "template"), "'chat.template'", "restore it");
  manifest.chat = {.chat_template = parse_chat_template(field), .context = 0};
  if (chat.contains("context")) manifest.chat->context = read_count(chat, "context", 1);
}

void read_model(const json& object, DatasetManifest& manifest) {
  const json& model = member(object, "model");
  manifest.model_file = read_string(model, "file");
  manifest.model_bytes = read_count(model, "bytes", 1);
  manifest.model_hash = read_string(model, "hash");
  const std::filesystem::path file = manifest.model_file;
  expect(!file.empty() && file == file.filename(),
         "'model.file' must name a file beside the manifest, is '{}'", manifest.model_file);
}

DatasetManifest parse(const json& object) {
  const auto format = read_string(object, "format");
  expect(format == kFormat, "'format' is '{}', expected '{}'", format, kFormat);
  const Index version = read_count(object, "version", 1);
  expect(version <= kVersion, "'version' is {}, this program reads 1 to {}", version, kVersion);
  DatasetManifest manifest;
  manifest.tokenizer = read_string(object, "tokenizer");
  const bool is_json = manifest.tokenizer == kTokenizerJson;
  expect(is_json || manifest.tokenizer == kBytes || manifest.tokenizer == kSentencePiece,
         "'tokenizer' is '{}', known are '{}', '{}' and '{}'", manifest.tokenizer, kBytes,
         kSentencePiece, kTokenizerJson);
  manifest.vocabulary = read_count(object, "vocabulary", 1);
  manifest.train_tokens = read_count(member(object, "tokens"), "train", 1);
  manifest.val_tokens = read_count(member(object, "tokens"), "val", 1);
  if (version > 1) {
    manifest.train_sums = read_sums(object, "train", manifest.vocabulary);
    manifest.val_sums = read_sums(object, "val", manifest.vocabulary);
  }
  if (object.contains("masks")) read_masks(object, manifest);
  if (object.contains("chat")) read_chat(object, manifest);
  if (manifest.tokenizer != kBytes) read_model(object, manifest);
  if (object.contains("pieces"))
    manifest.pieces = parse_piece_tokens(JsonField(object.at("pieces"), "'pieces'", "restore it"));
  if (is_json) {
    const Index end = read_count(object, "end_of_text", 0);
    expect(end < manifest.vocabulary, "'end_of_text' is {}, outside the vocabulary of {}", end,
           manifest.vocabulary);
    manifest.end_of_text = static_cast<std::int32_t>(end);
  }
  const json& sources = member(object, "sources");
  expect(sources.is_array(), "'sources' must be an array, is {}", excerpt(sources));
  for (const json& source : sources)
    manifest.sources.push_back(
        {.path = read_string(source, "path"), .bytes = read_count(source, "bytes", 0)});
  return manifest;
}

nlohmann::ordered_json to_json(const MaskSums& mask) {
  return {{"targets", mask.targets}, {"xxh3", hex_text(mask.checksum)}};
}

nlohmann::ordered_json to_json(const ChatData& chat) {
  nlohmann::ordered_json object{{"template", to_json(chat.chat_template)}};
  if (chat.context > 0) object["context"] = chat.context;
  return object;
}

}  // namespace

std::string to_text(const DatasetManifest& manifest) {
  const bool has_sums = manifest.train_sums && manifest.val_sums;
  const bool has_masks = manifest.train_mask && manifest.val_mask;
  const bool has_chats = has_masks || manifest.chat;
  nlohmann::ordered_json object{
      {"format", kFormat},
      {"version", has_chats ? kVersion : (has_sums ? kPlainVersion : 1)},
      {"tokenizer", manifest.tokenizer},
      {"vocabulary", manifest.vocabulary},
      {"tokens", {{"train", manifest.train_tokens}, {"val", manifest.val_tokens}}}};
  if (has_sums) {
    object["largest"] = {{"train", manifest.train_sums->largest},
                         {"val", manifest.val_sums->largest}};
    object["xxh3"] = {{"train", hex_text(manifest.train_sums->checksum)},
                      {"val", hex_text(manifest.val_sums->checksum)}};
  }
  if (!manifest.model_file.empty()) {
    object["model"] = {{"file", manifest.model_file},
                       {"bytes", manifest.model_bytes},
                       {"hash", manifest.model_hash}};
  }
  if (manifest.tokenizer == kTokenizerJson) object["end_of_text"] = manifest.end_of_text;
  if (manifest.pieces) object["pieces"] = to_json(*manifest.pieces);
  if (has_masks)
    object["masks"] = {{"train", to_json(*manifest.train_mask)},
                       {"val", to_json(*manifest.val_mask)}};
  if (manifest.chat) object["chat"] = to_json(*manifest.chat);
  object["sources"] = nlohmann::ordered_json::array();
  for (const SourceFile& source : manifest.sources) {
    object["sources"].push_back({{"path", source.path}, {"bytes", source.bytes}});
  }
  // File names need not be UTF-8, JSON must be.
  return json_text(object, 2) + "\n";
}

DatasetManifest read_manifest(const std::filesystem::path& path) {
  expect(!is_missing(path),
         "{}: missing, so the tokenizer of this dataset is unknown; write the dataset with "
         "prepare_data",
         path.string());
  const json object =
      read_json_object(path, "not a dataset manifest, write the dataset again with prepare_data");
  try {
    return parse(object);
  } catch (const Error& error) {
    fail("{}: {}; write the dataset again with prepare_data", path.string(), error.what());
  }
}

std::string hash_of(std::string_view bytes) {
  return fmt::format("xxh64:{:016x}", XXH64(bytes.data(), bytes.size(), 0));
}

}  // namespace dos::data
