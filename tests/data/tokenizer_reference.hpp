// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/json.hpp"
#include "base/random.hpp"
#include "data/bpe/byte_level_bpe.hpp"
#include "scratch_directory.hpp"

namespace dos::test {

/// The folder that tools/make_tokenizer_reference.py writes.
inline std::filesystem::path tokenizer_reference() {
  const char* root = std::getenv("DOS_SOURCE_DIR");
  require(root != nullptr, "DOS_SOURCE_DIR must name the sources");
  return std::filesystem::path(root) / "tests/reference/tokenizers";
}

/// The tokenizers of the folder, in the order of its random strings.
inline std::vector<std::string> reference_names() {
  return {"gpt2", "llama3", "qwen", "options", "prefix", "smollm"};
}

inline std::unique_ptr<data::Tokenizer> reference_tokenizer(const std::string& name) {
  const auto path = tokenizer_reference() / (name + ".json");
  const data::TokenizerFile file = data::read_tokenizer_file(path, "");
  return data::make_byte_level_bpe(file.contents, file.end_of_text, path);
}

inline nlohmann::json expected_tokens() {
  return parse_json(read_text(tokenizer_reference() / "expected.json"), "expected.json",
                    "write it again");
}

/// The rows of its random strings: a string, and 8 digits of each tokenizer.
inline std::vector<nlohmann::json> random_rows() {
  const ScratchDirectory scratch;
  const auto unpacked = scratch / "random.jsonl";
  const std::string command =
      fmt::format("gzip -dc '{}' > '{}'", (tokenizer_reference() / "random.jsonl.gz").string(),
                  unpacked.string());
  require(std::system(command.c_str()) == 0, "gzip unpacks the random strings");
  std::istringstream lines(read_text(unpacked));
  std::vector<nlohmann::json> rows;
  for (std::string line; std::getline(lines, line);)
    rows.push_back(parse_json(line, "random.jsonl", "write it again"));
  require(rows.size() >= 3000, "the random strings are all there");
  return rows;
}

/// As the script writes it of tokens.
inline std::string fnv_of(std::span<const std::int32_t> tokens) {
  return fmt::format("{:016x}", stream_of(fmt::format("{}", fmt::join(tokens, " "))));
}

}  // namespace dos::test
