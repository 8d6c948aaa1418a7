// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "base/file.hpp"
#include "base/json.hpp"
#include "data/piece_tokens.hpp"
#include "data/sentencepiece.hpp"
#include "data/tokenizer_reference.hpp"

namespace dos::test {

/// A file of the references. The members of objects are in the file's order.
inline nlohmann::ordered_json expected_chats(const char* file = "expected.json") {
  const auto path = tokenizer_reference().parent_path() / "chat" / file;
  return parse_ordered_json(read_text(path), path.string(), "write it again");
}

inline constexpr const char* kOfPieces = "pieces.json";

/// The entry of a built-in template.
inline nlohmann::ordered_json expected_chat(const std::string& name) {
  for (const char* file : {"expected.json", kOfPieces})
    if (const auto chats = expected_chats(file)["templates"]; chats.contains(name))
      return chats[name];
  fail("{}: no conversations; write them again", name);
}

/// The tokenizer.json of an entry: one of the references, and what it lacks.
inline std::string chat_tokenizer_json(const nlohmann::json& entry) {
  nlohmann::json tokenizer = read_json_object(
      tokenizer_reference() / (entry["tokenizer"].get<std::string>() + ".json"), "write it again");
  for (const nlohmann::json& text : entry["added"]) {
    nlohmann::json token = tokenizer["added_tokens"].back();
    token["id"] = token["id"].get<int>() + 1;
    token["content"] = text;
    tokenizer["added_tokens"].push_back(token);
  }
  return tokenizer.dump();
}

/// The SentencePiece model of an entry, and what it lacks.
inline std::unique_ptr<data::Tokenizer> piece_chat_tokenizer(const nlohmann::json& entry) {
  const auto path = tokenizer_reference() / entry["tokenizer"] / "tokenizer.model";
  const std::string model = read_text(path);
  data::PieceTokens pieces = data::read_piece_tokens(model, path);
  pieces.space_once = !entry["legacy"].get<bool>();
  for (const nlohmann::json& text : entry["added"])
    pieces.added.push_back({.text = text, .id = pieces.added.back().id + 1, .special = true});
  return data::make_sentencepiece_tokenizer(model, path, pieces);
}

inline std::unique_ptr<data::Tokenizer> chat_tokenizer(const nlohmann::json& entry) {
  if (entry.contains("legacy")) return piece_chat_tokenizer(entry);
  return data::make_byte_level_bpe(chat_tokenizer_json(entry), 4000, "chat tokenizer");
}

}  // namespace dos::test
