// SPDX-License-Identifier: Apache-2.0
#include "hf/side_files.hpp"

#include <algorithm>
#include <array>
#include <system_error>
#include <utility>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/json.hpp"
#include "hf/json_keys.hpp"

namespace dos::hf {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFileRemedy = "copy the file again, or take it out";
constexpr const char* kTokenizerClass = "tokenizer_class";
constexpr const char* kWholeTokenizer = "tokenizer.json";
/// Either makes a folder's other files those of a tokenizer.
constexpr std::array kTokenizers{kWholeTokenizer, "tokenizer.model"};
constexpr std::array kOfTokenizers{
    kWholeTokenizer,     "tokenizer.model",     kTokenizerConfigFile, "special_tokens_map.json",
    "added_tokens.json", "chat_template.jinja", "chat_template.json"};

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

/// The number of a token, or several.
std::vector<Index> tokens_of(const std::optional<JsonField>& field) {
  if (!field) return {};
  return field->value().is_array() ? field->indices() : std::vector<Index>{field->index()};
}

/// A negative number, which some folders have, stands for none.
std::optional<Index> token_of(JsonKeys& keys, const char* key) {
  const std::optional<JsonField> field = keys.find(key);
  if (!field || (field->value().is_number_integer() && field->value() < 0)) return std::nullopt;
  return field->index();
}

/// Those that are there.
std::vector<ExtraFile> files_of(const fs::path& folder) {
  std::vector<ExtraFile> files;
  const auto take = [&](const char* name) {
    if (is_there(folder / name)) files.push_back({name, read_text(folder / name)});
  };
  take(kConfigFile);
  take(kGenerationFile);
  if (std::ranges::any_of(kTokenizers, [&](const char* name) { return is_there(folder / name); }))
    std::ranges::for_each(kOfTokenizers, take);
  return files;
}

bool is_tokenizers(const std::string& name) {
  return std::ranges::find(kOfTokenizers, name) != kOfTokenizers.end();
}

/// The token that a tokenizer_config.json says ends a text; "" where it names none.
std::string named_end(const std::string& text, const std::string& place) {
  const nlohmann::json document = parse_json_object(text, place, kFileRemedy);
  JsonKeys keys(JsonField(document, place, kFileRemedy));
  const std::optional<JsonField> field = keys.find("eos_token");
  if (!field) return "";
  return field->value().is_object() ? field->member("content").text() : field->text();
}

const std::string* find_in(const std::vector<ExtraFile>& files, std::string_view name) {
  const auto found = std::ranges::find(files, name, &ExtraFile::name);
  return found == files.end() ? nullptr : &found->text;
}

/// The class by which files of ours want their tokenizer to be read; none where they do not say.
std::optional<std::string> wanted_class(const std::vector<ExtraFile>& own) {
  const std::string* text = find_in(own, kTokenizerConfigFile);
  const auto config = text != nullptr ? try_parse_json_object(*text) : std::nullopt;
  if (!config || !config->contains(kTokenizerClass)) return std::nullopt;
  return config->at(kTokenizerClass).get<std::string>();
}

/// `text`, an object, with another value of `key`; the order of the names stays.
std::string with(const std::string& text, const std::string& place, const char* key,
                 const nlohmann::ordered_json& value) {
  nlohmann::ordered_json document = parse_ordered_json(text, place, kFileRemedy);
  expect(document.is_object(), "{}: must be an object; {}", place, kFileRemedy);
  document[key] = value;
  return document.dump(2) + "\n";
}

}  // namespace

SideFiles::SideFiles(const fs::path& folder) : SideFiles(folder, files_of(folder)) {}

SideFiles::SideFiles(fs::path folder, std::vector<ExtraFile> files)
    : folder_(std::move(folder)), files_(std::move(files)) {
  const auto read = [&](const char* name, const auto& use) {
    const std::string* text = find(name);
    if (text == nullptr) return;
    const std::string place = (folder_ / name).string();
    const nlohmann::json document = parse_json_object(*text, place, kFileRemedy);
    JsonKeys keys(JsonField(document, place, kFileRemedy));
    use(keys);
  };
  read(kGenerationFile, [&](JsonKeys& keys) { ends_ = tokens_of(keys.find("eos_token_id")); });
  read(kConfigFile, [&](JsonKeys& keys) {
    tokens_ = {.begin = token_of(keys, "bos_token_id"),
               .padding = token_of(keys, "pad_token_id"),
               .ends = tokens_of(keys.find("eos_token_id"))};
  });
  if (find(kGenerationFile) == nullptr) ends_ = tokens_.ends;
}

const std::string* SideFiles::find(std::string_view name) const {
  return find_in(files_, name);
}

void SideFiles::write(const fs::path& folder) const {
  std::error_code error;
  fs::remove_all(folder, error);
  if (!error) fs::create_directories(folder, error);
  expect(!error, "{}: cannot write: {}", folder.string(), error.message());
  for (const ExtraFile& file : files_) write_durably(folder / file.name, file.text);
}

std::vector<ExtraFile> SideFiles::merged(std::vector<ExtraFile> own, std::span<const Index> more,
                                         const std::optional<std::string>& end_text) const {
  std::vector<ExtraFile> result;
  for (const ExtraFile& file : files_) {
    const std::string place = (folder_ / file.name).string();
    const bool is_own = find_in(own, file.name) != nullptr;
    if (file.name == kGenerationFile) {
      std::vector<Index> ends = ends_;
      for (const Index end : more)
        if (std::ranges::find(ends, end) == ends.end()) ends.push_back(end);
      const nlohmann::ordered_json value =
          ends.size() == 1 ? nlohmann::ordered_json(ends.front()) : nlohmann::ordered_json(ends);
      result.push_back(
          {file.name, ends == ends_ ? file.text : with(file.text, place, "eos_token_id", value)});
    } else if (file.name == kTokenizerConfigFile) {
      std::string text = file.text;
      if (end_text && named_end(text, place) != *end_text)
        text = with(text, place, "eos_token", *end_text);
      // The class that the folder names has not read a tokenizer.json so far.
      const bool is_made = find(kWholeTokenizer) == nullptr && find_in(own, kWholeTokenizer);
      if (const auto name = wanted_class(own); is_made && name)
        text = with(text, place, kTokenizerClass, *name);
      // In place of the one that only says that the tokenizer is to be taken as it is.
      std::erase_if(own, [&](const ExtraFile& other) { return other.name == file.name; });
      result.push_back({file.name, text});
    } else if (is_tokenizers(file.name) && !is_own) {
      result.push_back(file);
    }
  }
  std::ranges::move(own, std::back_inserter(result));
  return result;
}

}  // namespace dos::hf
