// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codelets/attention/attention.hpp"
#include "codelets/attention/attention_cpu_products.hpp"
#include "codelets/simd/elements.hpp"

/// Where a head's numbers lie, and their copies in FP32 that the kernels work on. Internal to the
/// kernels that are compiled once per instruction set.
namespace dos::codelets::attention {

/// Rows of a matrix inside a wider one.
template <class T>
struct Rows {
  T* first;
  Index stride;

  [[nodiscard, gnu::always_inline]] T* operator[](Index row) const { return first + row * stride; }
};

/// One head of queries in the arrays of the whole model, and the head of keys that it meets.
struct Place {
  Index qkv_stride;
  Index out_stride;
  Index query;  ///< offsets in qkv
  Index key;
  Index value;
  Index out;
  Index row;  ///< in logsumexp
};
[[gnu::always_inline]] static inline Place place_of(const AttentionShape& s, Index sequence,
                                                    Index head) {
  const Index first = sequence * s.tokens * s.qkv_width();
  const Index key = first + s.width() + head / s.group() * s.head_size;
  return {s.qkv_width(),
          s.width(),
          first + head * s.head_size,
          key,
          key + s.key_width(),
          sequence * s.queries() * s.width() + head * s.head_size,
          (sequence * s.heads + head) * s.queries()};
}

/// Rows first .. last - 1 of something.
struct Span {
  Index first;
  Index last;

  [[nodiscard, gnu::always_inline]] bool is_empty() const { return first >= last; }
};
[[gnu::always_inline]] static inline Span both(Span a, Span b) {
  return {a.first > b.first ? a.first : b.first, a.last < b.last ? a.last : b.last};
}

/// Who sees whom.
struct Sight {
  Index tokens;
  Index window;  ///< at most `tokens`

  /// Keys that at least one of the queries sees.
  [[nodiscard, gnu::always_inline]] Span keys_of(Span queries) const {
    const Index first = queries.first + 1 - window;
    return {first > 0 ? first : 0, queries.last};
  }
  /// Queries that see at least one of the keys.
  [[nodiscard, gnu::always_inline]] Span queries_of(Span keys) const {
    const Index last = keys.last - 1 + window;
    return {keys.first, last < tokens ? last : tokens};
  }
  /// Whether each of the queries sees each of the keys.
  [[nodiscard, gnu::always_inline]] bool is_whole(Span queries, Span keys) const {
    return keys.last - 1 <= queries.first && queries.last - 1 - keys.first < window;
  }
};

[[gnu::always_inline]] static inline Index rounded_up(Index count, Index step) {
  return (count + step - 1) / step * step;
}

/// Rows that are soon needed come to the second-level cache bit by bit while others are worked on:
/// those of a head lie far apart, where a processor does not fetch by itself.
struct Ahead {
  static constexpr int kMost = 8;
  const char* rows[kMost];
  Index strides[kMost];
  int count = 0;
  Index first = 0;
  Index left = 0;
  Index bytes = 0;

  /// Those of the tokens, of `size` elements of type T each.
  template <class T>
  [[gnu::always_inline]] void begin(Span tokens, Index size) {
    first = tokens.first;
    left = tokens.last - tokens.first;
    bytes = size * static_cast<Index>(sizeof(T));
  }
  /// Pre: begin(); at most kMost.
  template <class T>
  [[gnu::always_inline]] void add(const T* matrix, Index stride) {
    rows[count] = reinterpret_cast<const char*>(matrix + first * stride);
    strides[count++] = stride * static_cast<Index>(sizeof(T));
  }
  /// One more row of each.
  [[gnu::always_inline]] void step() {
    constexpr Index kLine = 64;
    if (left <= 0) return;
    --left;
    for (int i = 0; i < count; ++i) {
      for (Index byte = 0; byte < bytes; byte += kLine) __builtin_prefetch(rows[i] + byte, 0, 2);
      rows[i] += strides[i];
    }
  }
};

/// Room in the work space, whole cache lines at a time.
struct Room {
  float* next;

  [[gnu::always_inline]] explicit Room(float* workspace) : next(workspace) {
    constexpr std::uintptr_t kLine = kAttentionPadding * sizeof(float);
    next += (kLine - reinterpret_cast<std::uintptr_t>(workspace) % kLine) % kLine / sizeof(float);
  }
  [[gnu::always_inline]] float* take(Index count) {
    float* taken = next;
    next += rounded_up(count, kAttentionPadding);
    return taken;
  }
  [[gnu::always_inline]] Rows<float> rows(Index count, Index stride) {
    return {take(count * stride), stride};
  }
};

/// Elements that are copied at a time: loops of a fixed length become a few instructions.
inline constexpr Index kCopied = 16;

/// to[rows, width] = from, with zeros behind its `size` columns and, up to `padded`, its rows.
template <class T>
[[gnu::always_inline]] static inline void copy_rows(Index rows, Index padded, Index size,
                                                    Rows<const T> from, Rows<float> to) {
  for (Index row = 0; row < rows; ++row) {
    const T* __restrict in = from[row];
    float* __restrict out = to[row];
    Index first = 0;
    for (; first + kCopied <= size; first += kCopied) {
#pragma omp simd
      for (Index i = 0; i < kCopied; ++i) out[first + i] = to_float(in[first + i]);
    }
    for (; first < size; ++first) out[first] = to_float(in[first]);
    for (; first < to.stride; ++first) out[first] = 0;
  }
  float* rest = to[rows];
  for (Index i = 0; i < (padded - rows) * to.stride; ++i) rest[i] = 0;
}

/// to[size] = factor * from.
template <class T>
[[gnu::always_inline]] static inline void put_row(Index size, float factor,
                                                  const float* __restrict from, T* __restrict to) {
  Index first = 0;
  for (; first + kCopied <= size; first += kCopied) {
#pragma omp simd
    for (Index i = 0; i < kCopied; ++i) simd::put(to + first + i, factor * from[first + i]);
  }
  for (; first < size; ++first) simd::put(to + first, factor * from[first]);
}

template <class A, class B>
[[gnu::always_inline]] static inline float dot(Index count, const A* __restrict a,
                                               const B* __restrict b) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (Index i = 0; i < count; ++i) sum += to_float(a[i]) * to_float(b[i]);
  return sum;
}

/// sum += factor * x.
template <class T>
[[gnu::always_inline]] static inline void add_row(Index count, float factor, const T* __restrict x,
                                                  float* __restrict sum) {
#pragma omp simd
  for (Index i = 0; i < count; ++i) sum[i] += factor * to_float(x[i]);
}

/// to[columns, rows] = factor * from[rows, columns]. Pre: rows fill vectors, columns are a multiple
/// of four.
template <class C>
[[gnu::always_inline]] static inline void transpose(Index rows, Index columns, float factor,
                                                    Rows<const float> from, Rows<float> to) {
  using Floats = typename C::Floats;
  for (Index row = 0; row < rows; row += C::kLanes) {
    for (Index column = 0; column < columns; column += 4) {
      Floats block[4];
      for (int i = 0; i < 4; ++i)
        block[i] = simd::load_quarters<C>(from[row + i] + column, 4 * from.stride);
      simd::transpose_quarters<C>(block);
      for (int i = 0; i < 4; ++i) simd::store(to[column + i] + row, factor * block[i]);
    }
  }
}

}  // namespace dos::codelets::attention
