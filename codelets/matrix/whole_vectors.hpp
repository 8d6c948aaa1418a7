// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/types.hpp"
#include "codelets/matrix/gemm_cuda.hpp"

/// Products of sizes that cuBLAS is slow with, as several that it is fast with.
namespace dos::codelets::detail {

/// BF16 numbers in 16 bytes, which tensor cores' kernels read and write at once.
inline constexpr Index kVector = 8;
/// Multiplications of a product that is too short for its kernel to matter.
inline constexpr Index kLeastToCut = Index{1} << 20;

inline const void* behind(const void* array, DType type, Index elements) {
  return array == nullptr ? nullptr
                          : static_cast<const std::byte*>(array) + elements * size_of(type);
}

inline CudaMatrix from_row(CudaMatrix m, Index row) {
  m.elements = behind(m.elements, m.type, m.transposed ? row : row * m.stride);
  return m;
}
inline CudaMatrix from_column(CudaMatrix m, Index column) {
  m.elements = behind(m.elements, m.type, m.transposed ? column * m.stride : column);
  return m;
}
inline CudaProductOutput from(CudaProductOutput out, Index row, Index column) {
  const Index elements = row * out.stride + column;
  out.elements = const_cast<void*>(behind(out.elements, out.type, elements));
  out.start = behind(out.start, out.type, elements);
  out.bias = behind(out.bias, out.type, column);
  return out;
}

/// Whether each row begins on 16 bytes.
inline bool rows_are_aligned(const void* elements, DType type, Index stride) {
  constexpr std::uintptr_t kBytes = 16;
  return reinterpret_cast<std::uintptr_t>(elements) % kBytes == 0 &&
         static_cast<std::uintptr_t>(stride * size_of(type)) % kBytes == 0;
}

/// What of a dimension is its last, incomplete vector; 0: nothing, or the rest is hardly more.
constexpr Index excess(Index size) {
  return size > 8 * kVector ? size % kVector : 0;
}

/// product_cuda() by calls of multiply(rows, columns, inner, a, b, out), null or what went wrong.
/// Where rows of BF16 begin on 16 bytes, but dimensions along which elements lie beside each other
/// have an incomplete vector at the end, that is a product of its own: for the whole, cuBLAS 13 has
/// kernels that reach an eighth of an H100's rate (50257 logits, docs/performance/gpu.md). A sum
/// over such a dimension is rounded once more, when it has only the incomplete vector.
template <class Multiply>
const char* multiply_whole_vectors(Index rows, Index columns, Index inner, const CudaMatrix& a,
                                   const CudaMatrix& b, const CudaProductOutput& out,
                                   const Multiply& multiply) {
  const bool gains = a.type == DType::kBF16 && rows * columns >= ceil_div(kLeastToCut, inner) &&
                     rows_are_aligned(a.elements, a.type, a.stride) &&
                     rows_are_aligned(b.elements, b.type, b.stride) &&
                     rows_are_aligned(out.elements, out.type, out.stride) &&
                     rows_are_aligned(out.start, out.type, out.stride);
  if (!gains) return multiply(rows, columns, inner, a, b, out);
  const auto rest = [&](const char* fault, auto&& next) {
    return fault != nullptr ? fault : next();
  };
  if (const Index last = excess(columns); last != 0) {
    const Index first = columns - last;
    return rest(multiply_whole_vectors(rows, first, inner, a, b, out, multiply), [&] {
      return multiply(rows, last, inner, a, from_column(b, first), from(out, 0, first));
    });
  }
  if (const Index last = excess(rows); last != 0 && a.transposed) {
    const Index first = rows - last;
    return rest(multiply_whole_vectors(first, columns, inner, a, b, out, multiply), [&] {
      return multiply(last, columns, inner, from_row(a, first), b, from(out, first, 0));
    });
  }
  if (const Index last = excess(inner); last != 0 && (!a.transposed || b.transposed)) {
    const Index first = inner - last;
    CudaProductOutput sum = out;
    sum.start = out.elements;
    sum.bias = nullptr;
    return rest(multiply(rows, columns, last, from_column(a, first), from_row(b, first), out),
                [&] { return multiply(rows, columns, first, a, b, sum); });
  }
  return multiply(rows, columns, inner, a, b, out);
}

}  // namespace dos::codelets::detail
