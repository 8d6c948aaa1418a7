// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codelets/simd/vectors.hpp"

/// Products of matrices that lie in a processor's nearest caches: tiles of the result stay in
/// registers while the inner dimension is walked over. Internal to the kernels that are compiled
/// once per instruction set.
namespace dos::codelets::attention {

/// How an instruction set cuts attention. kGroup rows of two vectors are the sums that it holds in
/// registers, besides what is multiplied. kQueries and kKeys, multiples of kGroup, of two vectors
/// and one of the other, are the tile of scores that is computed at a time.
template <simd::Isa isa>
struct Cut : simd::Vectors<isa> {
  static constexpr int kGroup = isa == simd::Isa::kAvx512 ? 8 : isa == simd::Isa::kAvx2 ? 6 : 4;
  static constexpr Index kQueries = isa == simd::Isa::kAvx2 ? 48 : 64;
  static constexpr Index kKeys = kQueries;
};

/// Element (i, k) lies at first[i * row + k * step].
struct Left {
  const float* first;
  Index row;
  Index step;
};
/// Row k lies at first + k * stride.
struct Right {
  const float* first;
  Index stride;
};

/// kGroup rows of kVectors vectors.
template <class C, int kVectors>
using Sums = typename C::Floats[C::kGroup][kVectors];

/// sums[i] = a[i, k] b[k] added up for k = 0 .. count - 1 in this order.
template <class C, int kVectors>
[[gnu::always_inline]] static inline void sum_products(Index count, Left a, Right b,
                                                       Sums<C, kVectors>& sums) {
  using Floats = typename C::Floats;
  // One by one: as a whole they would be cleared in memory, not in registers.
#pragma GCC unroll 8
  for (int i = 0; i < C::kGroup; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) sums[i][j] = Floats{};
  }
  for (Index k = 0; k < count; ++k) {
    Floats row[kVectors];
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) row[j] = simd::load<Floats>(b.first + j * C::kLanes);
#pragma GCC unroll 8
    for (int i = 0; i < C::kGroup; ++i) {
#pragma GCC unroll 8
      for (int j = 0; j < kVectors; ++j) sums[i][j] += a.first[i * a.row] * row[j];
    }
    a.first += a.step;
    b.first += b.stride;
  }
}

/// Calls f.template operator()<kVectors>(first) for all vectors of rows of `columns` elements, two
/// vectors at a time as far as they go. Pre: whole vectors.
template <class C, class F>
[[gnu::always_inline]] static inline void for_columns(Index columns, const F& f) {
  Index first = 0;
  for (; first + 2 * C::kLanes <= columns; first += 2 * C::kLanes) f.template operator()<2>(first);
  if (first < columns) f.template operator()<1>(first);
}

/// What becomes of a sum in memory: it is overwritten, or added to.
enum class Target { kOverwritten, kAddedTo };

/// to[i, first .. ] = a b, or += a b, for kGroup rows.
template <class C, int kVectors>
[[gnu::always_inline]] static inline void multiply(Index count, Left a, Right b, Target target,
                                                   float* to, Index stride) {
  using Floats = typename C::Floats;
  Sums<C, kVectors> sums;
  sum_products<C, kVectors>(count, a, b, sums);
#pragma GCC unroll 8
  for (int i = 0; i < C::kGroup; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) {
      float* at = to + i * stride + j * C::kLanes;
      if (target == Target::kAddedTo) sums[i][j] += simd::load<Floats>(at);
      simd::store(at, sums[i][j]);
    }
  }
}

/// to[i, first .. ] = factors[i] * to[i, ..] + a b, for kGroup rows.
template <class C, int kVectors>
[[gnu::always_inline]] static inline void multiply_scaled(Index count, Left a, Right b,
                                                          const float* factors, float* to,
                                                          Index stride) {
  using Floats = typename C::Floats;
  Sums<C, kVectors> sums;
  sum_products<C, kVectors>(count, a, b, sums);
#pragma GCC unroll 8
  for (int i = 0; i < C::kGroup; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) {
      float* at = to + i * stride + j * C::kLanes;
      simd::store(at, factors[i] * simd::load<Floats>(at) + sums[i][j]);
    }
  }
}

}  // namespace dos::codelets::attention
