// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "data/dataset_manifest.hpp"
#include "data/mask_file.hpp"
#include "data/token_file.hpp"
#include "data/tokenizer.hpp"

namespace dos::data {

/// The files of the dataset PREFIX.
struct DatasetPaths {
  DatasetPaths() = default;
  /// Throws Error when the prefix is empty or ends in '/', '.' or '..': the files need a name to
  /// start with.
  explicit DatasetPaths(const std::filesystem::path& prefix);

  std::filesystem::path train;       ///< PREFIX_train.bin
  std::filesystem::path val;         ///< PREFIX_val.bin
  std::filesystem::path train_mask;  ///< PREFIX_train.mask (MaskFile): of conversations
  std::filesystem::path val_mask;    ///< PREFIX_val.mask
  std::filesystem::path manifest;    ///< PREFIX.json (dataset.json in a folder), may be absent:
                                     ///< llm.c's datasets have none
  std::filesystem::path model;       ///< PREFIX.model: SentencePiece's, or a tokenizer.json
};

struct Dataset {
  TokenFile train;
  TokenFile val;
  std::optional<DatasetManifest> manifest;
  std::optional<MaskFile> train_mask{};  ///< none: all tokens count
  std::optional<MaskFile> val_mask{};
};

/// By what a token file is known again.
struct TokenFileIdentity {
  Index tokens = 0;
  std::uint64_t ends = 0;                 ///< xxh3 of the first and last tokens
  std::optional<std::uint64_t> checksum;  ///< of all tokens, where the manifest says it
  std::optional<std::uint64_t> mask{};    ///< checksum of the mask; none where all tokens count

  /// Compares checksums where both are known, else ends: a file that is damaged at its ends is
  /// still the one that its manifest speaks of. Masks must be the same.
  [[nodiscard]] bool matches(const TokenFileIdentity& other) const;
};

/// Reads a few tokens of the file.
TokenFileIdentity identify(const TokenFile& file, const std::optional<TokenSums>& sums,
                           const std::optional<MaskSums>& mask = std::nullopt);

/// The files of a data set that is there: PREFIX_train.bin and PREFIX_val.bin; where these are
/// missing, train.bin and val.bin of the folder PREFIX, Megatron's PREFIX.bin with its index for
/// both, or the first of several files (find_shards() of PREFIX_train and PREFIX_val).
DatasetPaths find_dataset(const std::filesystem::path& prefix);

/// Opens both token files (of one file for both, its parts) and, where there is one, the manifest.
/// Throws Error, naming the file, when a token or mask file is missing or bad, or the manifest is
/// bad or speaks of other files.
Dataset open_dataset(const std::filesystem::path& prefix);

/// The tokenizer's model that the manifest at `path` names, "" for bytes. Throws Error when it is
/// missing or is not the one that the tokens were made with.
std::string read_model(const DatasetManifest& manifest, const std::filesystem::path& path);

/// The tokenizer that the manifest at `path` names. Throws Error as read_model() does.
std::unique_ptr<Tokenizer> make_tokenizer(const DatasetManifest& manifest,
                                          const std::filesystem::path& path);

}  // namespace dos::data
