// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>

#include "base/file.hpp"
#include "base/types.hpp"

namespace dos::data {

/// Which of a file's tokens are meant.
enum class Part : std::uint8_t {
  kAll,
  kTrain,       ///< of a Megatron file with its index: the documents before kValidation's
  kValidation,  ///< the last documents, at most a tenth of the tokens or one document
};

/// Where the tokens of a file lie: one behind the other, little-endian.
struct TokenLayout {
  Index first_byte = 0;
  Index token_bytes = 2;  ///< 2 or 4
  Index tokens = 0;       ///< at least 1
};

/// Whether a file that names a folder's split holds bare tokens, as nanoGPT's train.bin and val.bin
/// do: by its name alone, as nothing in it says so.
bool may_be_bare(const std::filesystem::path& path);

/// The index that belongs to a Megatron file: PREFIX.idx of PREFIX.bin.
std::filesystem::path index_of(const std::filesystem::path& path);

/// Reads how `file` is laid out: by Megatron's index beside it, where there is one; by llm.c's
/// header (token_file.hpp); or, under a name for which may_be_bare() holds, as bare uint16 tokens.
/// Throws Error, naming the file and the remedy, when it is empty, cut short, too long, without
/// tokens or of an unknown format or version, or when `part` of it does not exist.
TokenLayout find_layout(const InputFile& file, Part part);

}  // namespace dos::data
