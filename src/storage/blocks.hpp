// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "base/types.hpp"

namespace dos::storage {

/// A piece of a transfer: one system call, if nothing goes wrong.
struct Block {
  Index offset = 0;  ///< in the file
  Index bytes = 0;
  bool is_direct = false;

  bool operator==(const Block&) const = default;
};

/// Below so many bytes a transfer goes through the page cache.
inline constexpr Index kLeastDirect = 64 * 1024;

/// Cuts bytes offset .. offset + bytes - 1 of a file into blocks of at most `block_bytes`. Where
/// `alignment` > 0, the units of the file that belong to the range as a whole are direct; what
/// begins or ends inside a unit is not: so no unit is ever written both ways, whatever ranges meet
/// in it. 0: none is direct. Pre: block_bytes is positive and a multiple of the alignment.
std::vector<Block> cut_into_blocks(Index offset, Index bytes, Index alignment, Index block_bytes);

}  // namespace dos::storage
