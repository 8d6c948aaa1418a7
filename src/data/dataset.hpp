// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "data/manifest.hpp"
#include "data/token_file.hpp"
#include "data/tokenizer.hpp"

namespace dos::data {

/// The files of the dataset PREFIX.
struct DatasetPaths {
  /// Throws Error when the prefix is empty or ends in '/': the files need a name to start with.
  explicit DatasetPaths(const std::filesystem::path& prefix);

  std::filesystem::path train;     ///< PREFIX_train.bin
  std::filesystem::path val;       ///< PREFIX_val.bin
  std::filesystem::path manifest;  ///< PREFIX.json, may be absent: llm.c's datasets have none
  std::filesystem::path model;     ///< PREFIX.model, for sentencepiece only
};

struct Dataset {
  TokenFile train;
  TokenFile val;
  std::optional<Manifest> manifest;
};

/// By what a token file is known again.
struct TokenFileIdentity {
  Index tokens = 0;
  std::uint64_t ends = 0;                 ///< xxh3 of the first and last tokens
  std::optional<std::uint64_t> checksum;  ///< of all tokens, where the manifest says it

  /// Compares checksums where both are known, else ends: a file that is damaged at its ends is
  /// still the one that its manifest speaks of.
  [[nodiscard]] bool matches(const TokenFileIdentity& other) const;
};

/// Reads a few tokens of the file.
TokenFileIdentity identify(const TokenFile& file, const std::optional<TokenSums>& sums);

/// Opens both token files and, where there is one, the manifest. Throws Error, naming the file,
/// when a token file is missing or bad, or the manifest is bad or speaks of other token files.
Dataset open_dataset(const std::filesystem::path& prefix);

/// The SentencePiece model that the manifest at `path` names, "" for bytes. Throws Error when it is
/// missing or is not the one that the tokens were made with.
std::string read_model(const Manifest& manifest, const std::filesystem::path& path);

/// The tokenizer that the manifest at `path` names. Throws Error as read_model() does.
std::unique_ptr<Tokenizer> make_tokenizer(const Manifest& manifest,
                                          const std::filesystem::path& path);

/// The tokenizer of the dataset PREFIX. Throws Error when it has no manifest.
std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& prefix);

}  // namespace dos::data
