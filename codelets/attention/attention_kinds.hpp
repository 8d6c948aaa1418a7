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
  return {shape.tokens, static_cast<int>(shape.head_size), words};
}

template <class T>
DOS_DEVICE ForwardHead<T> head_of(const AttentionShape& shape, bool words, float scale,
                                  const ForwardArrays<T>& a, Index head) {
  const HeadOffsets at = head_offsets(shape, head);
  const Index stride = 3 * at.width;
  const T* q = a.qkv + at.qkv;
  return {head_size_of(shape, words),
          scale,
          {q, stride},
          {q + at.width, stride},
          {q + 2 * at.width, stride},
          {a.out + at.out, at.width},
          a.logsumexp + at.row};
}

template <class T>
DOS_DEVICE BackwardHead<T> head_of(const AttentionShape& shape, bool words, float scale,
                                   const BackwardArrays<T>& a, Index head) {
  const HeadOffsets at = head_offsets(shape, head);
  const Index stride = 3 * at.width;
  const T* q = a.qkv + at.qkv;
  T* dq = a.dqkv + at.qkv;
  return {head_size_of(shape, words),
          scale,
          {q, stride},
          {q + at.width, stride},
          {q + 2 * at.width, stride},
          {a.dout + at.out, at.width},
          a.logsumexp + at.row,
          a.delta + (head - a.first_head) * shape.tokens,
          {dq, stride},
          {dq + at.width, stride},
          {dq + 2 * at.width, stride}};
}

}  // namespace dos::codelets::attention
