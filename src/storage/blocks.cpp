// SPDX-License-Identifier: Apache-2.0
#include "storage/blocks.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace dos::storage {
namespace {

void append(std::vector<Block>& blocks, Index first, Index last, bool is_direct,
            Index block_bytes) {
  for (; first < last; first += block_bytes)
    blocks.push_back({first, std::min(block_bytes, last - first), is_direct});
}

}  // namespace

std::vector<Block> cut_into_blocks(Index offset, Index bytes, Index alignment, Index block_bytes) {
  require(block_bytes > 0 && alignment >= 0 && (alignment == 0 || block_bytes % alignment == 0),
          "blocks of whole units");
  std::vector<Block> blocks;
  const Index end = offset + bytes;
  const Index first = alignment > 0 ? ceil_div(offset, alignment) * alignment : end;
  const Index last = alignment > 0 ? end / alignment * alignment : end;
  if (last - first < kLeastDirect) {
    append(blocks, offset, end, false, block_bytes);
    return blocks;
  }
  append(blocks, offset, first, false, block_bytes);
  append(blocks, first, last, true, block_bytes);
  append(blocks, last, end, false, block_bytes);
  return blocks;
}

}  // namespace dos::storage
