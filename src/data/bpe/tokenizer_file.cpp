// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <system_error>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/json.hpp"
#include "base/json_field.hpp"
#include "data/bpe/byte_level_bpe.hpp"
#include "data/bpe/pipeline_json.hpp"
#include "data/bpe/tokenizer_json.hpp"
#include "data/missing.hpp"

namespace dos::data {
namespace {

constexpr std::array kUsualNames{"<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>"};

std::optional<std::int32_t> id_of(const bpe::TokenizerJson& json, const std::string& text) {
  for (const bpe::AddedToken& token : json.added)
    if (token.text == text) return token.id;
  for (const auto& [token, id] : json.vocabulary)
    if (token == text) return id;
  return std::nullopt;
}

/// "" where the configuration is missing or names none.
std::string configured_end(const std::filesystem::path& path, EndOption option) {
  if (is_missing(path)) return "";
  const std::string remedy = option == EndOption::kGiven
                                 ? "copy the file again, or give --end-of-text"
                                 : "copy the file again";
  const nlohmann::json document = read_json_object(path, remedy);
  const JsonField root(document, path.string(), remedy);
  if (!bpe::has(root, "eos_token")) return "";
  const JsonField token = root.member("eos_token");
  return token.value().is_object() ? token.member("content").text() : token.text();
}

std::int32_t find_end(const bpe::TokenizerJson& json, const std::filesystem::path& path,
                      const std::string& wanted, EndOption option) {
  const auto config = path.parent_path() / "tokenizer_config.json";
  const std::string remedy = option == EndOption::kGiven
                                 ? "with --end-of-text"
                                 : fmt::format("as 'eos_token' in {}", config.string());
  const std::string name = wanted.empty() ? configured_end(config, option) : wanted;
  if (!name.empty()) {
    const auto id = id_of(json, name);
    expect(id.has_value(),
           "{}: has no token '{}', which {} names as the end of a text; give the text of "
           "one that it has {}",
           path.string(), one_line(name), wanted.empty() ? config.string() : "--end-of-text",
           remedy);
    return *id;
  }
  std::optional<std::int32_t> found;
  for (const char* usual : kUsualNames) {
    const auto token =
        std::ranges::find_if(json.added, [&](const auto& a) { return a.text == usual; });
    if (token == json.added.end()) continue;
    expect(!found, "{}: has several tokens that may end a text; name one {}", path.string(),
           remedy);
    found = token->id;
  }
  expect(found.has_value(),
         "{}: does not say which token ends a text, and there is no {}; name it {}", path.string(),
         config.string(), remedy);
  return *found;
}

}  // namespace

std::filesystem::path tokenizer_json_of(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored) ? path / "tokenizer.json" : path;
}

std::string token_text(const std::string& contents, std::int32_t token,
                       const std::filesystem::path& name) {
  const bpe::TokenizerJson json = bpe::parse_tokenizer_json(contents, name.string());
  for (const bpe::AddedToken& added : json.added)
    if (added.id == token) return added.text;
  for (const auto& [text, id] : json.vocabulary)
    if (id == token) return text;
  fail("{}: has no token {}; use the file that the data set was made with", name.string(), token);
}

bool same_vocabulary(const std::string& a, const std::string& b) {
  return bpe::parse_tokenizer_json(a, "a").vocabulary ==
         bpe::parse_tokenizer_json(b, "b").vocabulary;
}

TokenizerFile read_tokenizer_file(const std::filesystem::path& path, const std::string& end_of_text,
                                  EndOption option) {
  TokenizerFile file{.path = tokenizer_json_of(path), .contents = {}};
  expect(!is_missing(file.path),
         "{}: does not exist; name a tokenizer.json, or a folder that has one", file.path.string());
  file.contents = read_text(file.path);
  file.end_of_text = find_end(bpe::parse_tokenizer_json(file.contents, file.path.string()),
                              file.path, end_of_text, option);
  return file;
}

}  // namespace dos::data
