// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "base/file.hpp"
#include "base/json.hpp"
#include "data/tokenizer_reference.hpp"

namespace dos::test {

/// The members of objects are in the file's order.
inline nlohmann::ordered_json expected_chats() {
  const auto path = tokenizer_reference().parent_path() / "chat" / "expected.json";
  return parse_ordered_json(read_text(path), path.string(), "write it again");
}

/// The tokenizer.json of a template's entry in expected_chats(): one of the references, and what it
/// lacks.
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

inline std::unique_ptr<data::Tokenizer> chat_tokenizer(const nlohmann::json& entry) {
  return data::make_byte_level_bpe(chat_tokenizer_json(entry), 4000, "chat tokenizer");
}

}  // namespace dos::test
