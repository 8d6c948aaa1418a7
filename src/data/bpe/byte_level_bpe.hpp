// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "data/tokenizer.hpp"

namespace dos::data {

/// A file tokenizer.json, and the end of its texts.
struct TokenizerFile {
  std::filesystem::path path;
  std::string contents;
  std::int32_t end_of_text = 0;
};

/// The file that `path` names: itself, or tokenizer.json in the folder that it is.
std::filesystem::path tokenizer_json_of(const std::filesystem::path& path);

/// Whether the caller has an option --end-of-text, which messages name then.
enum class EndOption { kGiven, kNone };

/// Reads `path`, a tokenizer.json or a folder that has one. The end of a text is the token
/// `end_of_text` where that is not empty, else the "eos_token" of tokenizer_config.json in the same
/// folder, else the only added token with one of the usual names. Throws Error, naming the remedy,
/// when the file is no byte-level BPE, or the token is unknown.
TokenizerFile read_tokenizer_file(const std::filesystem::path& path, const std::string& end_of_text,
                                  EndOption option = EndOption::kGiven);

/// A token's text as the contents of a tokenizer.json write it, as `end_of_text` above takes it.
/// Throws Error, naming the file `name`, when they are no byte-level BPE or have no such token.
std::string token_text(const std::string& contents, std::int32_t token,
                       const std::filesystem::path& name);

/// Whether two contents of files tokenizer.json give the same tokens the same ids, but for added
/// ones. Throws Error when one is no byte-level BPE.
bool same_vocabulary(const std::string& a, const std::string& b);

/// A byte-level BPE from the contents of a tokenizer.json: the same tokens as those of the library
/// `tokenizers`, without the tokens of its post-processor, for all UTF-8; bytes that are none are
/// tokens of their own. Added tokens in a text are found. Throws Error, naming the file `name`,
/// when it is no such tokenizer or `end_of_text` is outside its vocabulary.
std::unique_ptr<Tokenizer> make_byte_level_bpe(const std::string& contents,
                                               std::int32_t end_of_text,
                                               const std::filesystem::path& name);

}  // namespace dos::data
