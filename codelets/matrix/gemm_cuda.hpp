// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codelets/cuda/compiled.hpp"
#include "codelets/cuda/context.hpp"

namespace dos::codelets {

/// A row-major matrix in device memory: `stride` elements lie between its rows.
struct CudaMatrix {
  const void* elements;
  DType type;
  Index stride;
  bool transposed = false;
  Index batch_stride = 0;  ///< elements between the matrices of a batch
};

/// What becomes of a product: out = scale a b + start + bias, each row plus bias[columns].
struct CudaProductOutput {
  void* elements;
  DType type;
  Index stride;
  const void* start = nullptr;  ///< of the same type and stride, out itself perhaps; null for none
  const void* bias = nullptr;   ///< of the same type, aligned to 16 bytes; null for none
  Index batch_stride = 0;       ///< elements between the matrices of a batch, of start too
  float scale = 1;
};

/// out[rows, columns] = op(a)[rows, inner] * op(b)[inner, columns] + ... by cuBLAS, accumulated in
/// FP32 whatever the types, FP32 factors without TF32. Starts on the context's stream; null or what
/// went wrong. Pre: rows, columns and inner > 0; a and b of one type. `batch` such products at
/// once, > 0: the matrices of each lie batch_stride elements behind those of the one before, and no
/// two outputs share an element; the bias is the same for all. Uses the product_workspace().
///
/// Deterministic: one stream, a workspace of its own, and split sums only through the workspace in
/// FP32, in fixed order. The bits may differ between GPU models and cuBLAS versions.
const char* product_cuda(const CudaContext& context, Index rows, Index columns, Index inner,
                         const CudaMatrix& a, const CudaMatrix& b, const CudaProductOutput& out,
                         Index batch = 1);

}  // namespace dos::codelets
