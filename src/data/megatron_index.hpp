// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/file.hpp"
#include "data/token_layout.hpp"

namespace dos::data {

/// Reads an index of Megatron-LM (MMIDIDX, version 1) and compares it with the file of tokens that
/// it belongs to. Little-endian, in this order:
///   9 bytes magic, uint64 version, uint8 type of a token, uint64 sequences S, uint64 documents +
///   1, int32 length of each sequence, int64 first byte of each sequence, int64 first sequence of
///   each document, and S behind the last
/// Types 4 (int32) and 8 (uint16) are read. Throws Error, naming file and remedy, for other types,
/// when it is damaged or of another file, or when sequences do not follow each other.
TokenLayout read_megatron_index(const InputFile& tokens, Part part);

}  // namespace dos::data
