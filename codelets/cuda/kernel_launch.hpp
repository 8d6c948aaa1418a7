// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/host_device.hpp"
#include "base/types.hpp"

/// The arithmetic of CUDA launches, without CUDA: tests run it on the host.
namespace dos::codelets::cuda {

/// Threads of a block, unless a kernel says otherwise.
inline constexpr int kThreads = 256;
/// Bytes that a thread reads or writes at a time, and what their address must be a multiple of.
inline constexpr Index kWord = 16;
/// Elements that a thread takes at a time: a word of the widest type among those it works on, so
/// that threads beside each other read words beside each other.
template <class... T>
inline constexpr Index kPack = kWord / std::max({Index{sizeof(T)}...});
/// Blocks a processor that keep it busy while the loop over the grid has more to do.
inline constexpr Index kBlocksPerProcessor = 16;

/// Blocks for `items` of which a block takes `per_block` at a time: none idle, `most` at the most.
constexpr Index grid_blocks(Index items, Index per_block, Index most) {
  const Index needed = ceil_div(items, per_block);
  return needed < most ? needed : most;
}

DOS_HD static bool aligned(const void* array) {
  return reinterpret_cast<std::uintptr_t>(array) % kWord == 0;
}

/// Elements of arrays of types T, from their start, that are taken in whole packs; the others one
/// by one.
template <class... T>
constexpr Index packed_elements(Index count, bool all_aligned) {
  return all_aligned ? count / kPack<T...> * kPack<T...> : 0;
}

/// True when each of several rows, `stride` elements of `size` bytes apart, starts on a word if the
/// first one does.
constexpr bool rows_stay_aligned(Index stride, Index size) {
  return stride * size % kWord == 0;
}

/// Elements of `size` bytes before the first word boundary at or after `array`, at most `count`.
DOS_HD static Index elements_to_alignment(const void* array, Index size, Index count) {
  const auto past = static_cast<Index>(reinterpret_cast<std::uintptr_t>(array) % kWord);
  const Index before = past == 0 ? 0 : (kWord - past) / size;
  return before < count ? before : count;
}

/// Rows first .. first + count - 1 that a part sums.
struct RowsOfPart {
  Index first;
  Index count;
};
/// `rows` in near-equal parts; the host divides, not every thread.
struct RowParts {
  Index rows;  ///< of each part,
  Index more;  ///< and one more of so many, the first ones

  constexpr RowParts(Index all, Index parts) : rows(all / parts), more(all % parts) {}
  DOS_HD constexpr RowsOfPart part(Index number) const {
    const bool has_more = number < more;
    return {number * rows + (has_more ? number : more), rows + (has_more ? 1 : 0)};
  }
};

/// Parts into which `rows` are cut for sums that a second kernel adds up in order: at least
/// kRowsOfPart each, at most kMostParts, and never more than `room` bytes of partial results, of
/// which a part takes `part_bytes`. Depends on sizes alone, so that a sum has the same bits on
/// every GPU. 0 when not one part has room.
inline constexpr Index kRowsOfPart = 64;
inline constexpr Index kMostParts = 256;
constexpr Index parts_for(Index rows, Index part_bytes, Index room) {
  Index parts = ceil_div(rows, kRowsOfPart);
  if (parts > kMostParts) parts = kMostParts;
  if (parts < 1) parts = 1;
  const Index fit = room / part_bytes;
  return parts < fit ? parts : fit;
}

}  // namespace dos::codelets::cuda
