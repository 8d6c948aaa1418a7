// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codelets/attention/attention_block.hpp"

namespace dos::codelets::attention {

/// The kernels that are compiled, for heads of up to 64 and up to 128. Backward holds two results
/// and two score tiles in registers, forward one of each: hence its two row tiles a warp, which
/// halve what it reads from shared memory. Wider tiles of columns than these spill registers. All
/// fit the 99 KiB that a block may take on any GPU from compute capability 8.0 on.
template <class T, int kHead>
struct Kinds;
template <int kHead>
struct Kinds<BF16, kHead> {
  using Forward = Tiling<BF16, kHead, 2, kHead == 64 ? 64 : 32>;
  using Backward = Tiling<BF16, kHead, 1, kHead == 64 ? 64 : 32>;
};
template <int kHead>
struct Kinds<float, kHead> {
  using Forward = Tiling<float, kHead, 1, kHead == 64 ? 32 : 16>;
  using Backward = Forward;
};

inline constexpr Index kSharedOfBlock = Index{99} << 10;
template <class T, int kHead>
inline constexpr bool kFits =
    forward_shared_bytes<typename Kinds<T, kHead>::Forward>() <=
    kSharedOfBlock&& backward_shared_bytes<typename Kinds<T, kHead>::Backward>() <= kSharedOfBlock;
static_assert(kFits<BF16, 64> && kFits<BF16, 128> && kFits<float, 64> && kFits<float, 128>);

/// Arrays of a whole task.
template <class T>
struct ForwardArrays {
  const T* qkv;
  T* out;
  float* logsumexp;
};
template <class T>
struct BackwardArrays {
  const T* qkv;
  const T* dout;
  const float* logsumexp;
  const float* delta;  ///< of the heads from first_head on
  T* dqkv;
  Index first_head;
};

DOS_HD static HeadSize head_size_of(const AttentionShape& shape, bool words) {
  const bool all = shape.window == 0 || shape.window >= shape.tokens;
  return {shape.tokens, static_cast<int>(shape.head_size), words,
          all ? kNoWindow : static_cast<int>(shape.window)};
}

template <class T>
DOS_DEVICE ForwardHead<T> head_of(const AttentionShape& shape, bool words, float scale,
                                  const ForwardArrays<T>& a, Index head) {
  const HeadOffsets at = head_offsets(shape, head);
  return {head_size_of(shape, words),    scale,
          {a.qkv + at.query, at.stride}, {a.qkv + at.key, at.stride},
          {a.qkv + at.value, at.stride}, {a.out + at.out, at.width},
          a.logsumexp + at.row};
}

template <class T>
DOS_DEVICE BackwardHead<T> head_of(const AttentionShape& shape, bool words, float scale,
                                   const BackwardArrays<T>& a, Index head) {
  const HeadOffsets at = head_offsets(shape, head);
  return {head_size_of(shape, words),     scale,
          {a.qkv + at.query, at.stride},  {a.qkv + at.key, at.stride},
          {a.qkv + at.value, at.stride},  {a.dout + at.out, at.width},
          a.logsumexp + at.row,           a.delta + (head - a.first_head) * shape.tokens,
          {a.dqkv + at.query, at.stride}, {a.dqkv + at.key, at.stride},
          {a.dqkv + at.value, at.stride}, static_cast<int>(shape.group())};
}

}  // namespace dos::codelets::attention
