// SPDX-License-Identifier: Apache-2.0
#include "data/dataset_manifest.hpp"

#include <xxhash.h>

#include <limits>

#include "base/checksum.hpp"
#include "base/error.hpp"
#include "base/json.hpp"
#include "data/missing.hpp"
#include "data/tokenizer.hpp"

namespace dos::data {
namespace {

using nlohmann::json;

constexpr const char* kFormat = "dos.dataset";
constexpr int kVersion = 2;

Index read_count(const json& object, const char* key, Index minimum) {
  const auto& value = object.at(key);
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
  const auto text = object.at("xxh3").at(split).get<std::string>();
  const std::optional<std::uint64_t> checksum = parse_hex(text);
  expect(checksum.has_value(), "'xxh3.{}' must be 16 hexadecimal digits, is '{}'", split, text);
  const Index largest = read_count(object.at("largest"), split, 0);
  expect(largest < vocabulary, "'largest.{}' is {}, outside the vocabulary of {}", split, largest,
         vocabulary);
  return {largest, *checksum};
}

void read_model(const json& object, DatasetManifest& manifest) {
  const json& model = object.at("model");
  manifest.model_file = model.at("file").get<std::string>();
  manifest.model_bytes = read_count(model, "bytes", 1);
  manifest.model_hash = model.at("hash").get<std::string>();
  const std::filesystem::path file = manifest.model_file;
  expect(!file.empty() && file == file.filename(),
         "'model.file' must name a file beside the manifest, is '{}'", manifest.model_file);
}

DatasetManifest parse(const json& object) {
  const auto format = object.at("format").get<std::string>();
  expect(format == kFormat, "'format' is '{}', expected '{}'", format, kFormat);
  const Index version = read_count(object, "version", 1);
  expect(version <= kVersion, "'version' is {}, this program reads 1 to {}", version, kVersion);
  DatasetManifest manifest;
  manifest.tokenizer = object.at("tokenizer").get<std::string>();
  const bool is_json = manifest.tokenizer == kTokenizerJson;
  expect(is_json || manifest.tokenizer == kBytes || manifest.tokenizer == kSentencePiece,
         "'tokenizer' is '{}', known are '{}', '{}' and '{}'", manifest.tokenizer, kBytes,
         kSentencePiece, kTokenizerJson);
  manifest.vocabulary = read_count(object, "vocabulary", 1);
  manifest.train_tokens = read_count(object.at("tokens"), "train", 1);
  manifest.val_tokens = read_count(object.at("tokens"), "val", 1);
  if (version > 1) {
    manifest.train_sums = read_sums(object, "train", manifest.vocabulary);
    manifest.val_sums = read_sums(object, "val", manifest.vocabulary);
  }
  if (manifest.tokenizer != kBytes) read_model(object, manifest);
  if (is_json) {
    const Index end = read_count(object, "end_of_text", 0);
    expect(end < manifest.vocabulary, "'end_of_text' is {}, outside the vocabulary of {}", end,
           manifest.vocabulary);
    manifest.end_of_text = static_cast<std::int32_t>(end);
  }
  for (const json& source : object.at("sources")) {
    manifest.sources.push_back(
        {.path = source.at("path").get<std::string>(), .bytes = read_count(source, "bytes", 0)});
  }
  return manifest;
}

}  // namespace

std::string to_text(const DatasetManifest& manifest) {
  const bool has_sums = manifest.train_sums && manifest.val_sums;
  nlohmann::ordered_json object{
      {"format", kFormat},
      {"version", has_sums ? kVersion : 1},
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
  object["sources"] = nlohmann::ordered_json::array();
  for (const SourceFile& source : manifest.sources) {
    object["sources"].push_back({{"path", source.path}, {"bytes", source.bytes}});
  }
  // File names need not be UTF-8, JSON must be.
  return object.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
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
  } catch (const json::exception& error) {
    fail("{}: not a dataset manifest: {}; write the dataset again with prepare_data", path.string(),
         error.what());
  } catch (const Error& error) {
    fail("{}: {}; write the dataset again with prepare_data", path.string(), error.what());
  }
}

std::string hash_of(std::string_view bytes) {
  return fmt::format("xxh64:{:016x}", XXH64(bytes.data(), bytes.size(), 0));
}

}  // namespace dos::data
