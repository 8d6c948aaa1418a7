// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.hpp"
#include "data/chat/chat_template.hpp"
#include "data/mask_file.hpp"
#include "data/piece_tokens.hpp"
#include "data/token_file.hpp"

namespace dos::data {

struct SourceFile {
  std::string path;
  Index bytes = 0;
};

/// How the texts of a data set of conversations were written.
struct ChatData {
  ChatTemplate chat_template;
  Index context = 0;  ///< of the windows into which they are laid; 0: none

  bool operator==(const ChatData&) const = default;
};

/// What PREFIX.json says about the token files beside it. The file is JSON:
///   {"format": "dos.dataset", "version": 3, "tokenizer": "bytes", "sentencepiece" or
///   "tokenizer.json",
///    "vocabulary": 257, "tokens": {"train": 900, "val": 100},
///    "largest": {"train": 255, "val": 240}, "xxh3": {"train": "0123456789abcdef", "val": ...},
///    "model": {"file": "PREFIX.model", "bytes": 1234, "hash": "xxh64:..."} (not for bytes),
///    "end_of_text": 50256 (tokenizer.json only),
///    "pieces": (PieceTokens; sentencepiece with a model that was given),
///    "masks": {"train": {"targets": 300, "xxh3": "0123456789abcdef"}, "val": ...},
///    "chat": {"template": (ChatTemplate), "context": 64 (where there are windows)},
///    "sources": [{"path": "input.txt", "bytes": 1000}]}
/// Version 2, which data sets with neither have still, has no "masks" and no "chat"; version 1 had
/// neither "largest" nor "xxh3" (TokenSums).
struct DatasetManifest {
  std::string tokenizer;
  Index vocabulary = 0;
  Index train_tokens = 0;
  Index val_tokens = 0;
  std::optional<TokenSums> train_sums{};  ///< none in version 1
  std::optional<TokenSums> val_sums{};
  std::string model_file;  ///< in the manifest's own folder; empty for bytes
  Index model_bytes = 0;
  std::string model_hash;
  std::int32_t end_of_text = 0;          ///< tokenizer.json only
  std::optional<PieceTokens> pieces{};   ///< sentencepiece only; none: the model's alone
  std::optional<MaskSums> train_mask{};  ///< both or none, which means that all tokens count
  std::optional<MaskSums> val_mask{};
  std::optional<ChatData> chat{};
  std::vector<SourceFile> sources;
};

/// The manifest as the text of its file.
std::string to_text(const DatasetManifest& manifest);

/// Throws Error, naming the file, the entry and the remedy, when the file is missing, is not JSON,
/// is of another format or version, or lacks an entry or has one of the wrong type or value.
DatasetManifest read_manifest(const std::filesystem::path& path);

/// "xxh64:" and 16 hexadecimal digits of the bytes' xxHash.
std::string hash_of(std::string_view bytes);

}  // namespace dos::data
