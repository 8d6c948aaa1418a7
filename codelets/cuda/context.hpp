// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "base/types.hpp"

struct CUstream_st;
struct cublasLtContext;

namespace dos::codelets {

/// What CUDA kernels need beside their arrays. What the workspace held does not matter, and nothing
/// stays in it: whatever follows on the stream may overwrite it.
///
/// The functions `*_cuda` that take it have a contract in common. They exist only if
/// kHasCudaKernels (cuda/compiled.hpp). They start on the stream, wait for nothing, and return null
/// or what went wrong. All arrays are device memory; lists of addresses are host memory, read
/// before the return. `type`, FP32 or BF16, is that of activations and parameters, `gradient` that
/// of the parameters' gradients. Elements of arrays given as void have these types; arithmetic and
/// sums are FP32 unless it is said, rounded once. The order of additions depends on sizes alone.
struct CudaContext {
  CUstream_st* stream;
  void* workspace;  ///< device memory, aligned to 256 bytes
  Index workspace_bytes;
  cublasLtContext* blas;  ///< needed by matrix products alone
  /// Where kernels of other libraries keep what they have made for this thread and device; null:
  /// they do without (attention_cudnn.hpp).
  std::shared_ptr<void>* kept = nullptr;
};

/// The beginning of a workspace that products of matrices use; callers may keep factors behind it.
/// 32 MiB are what NVIDIA recommends from Hopper on (cuBLAS manual, cublasSetWorkspace).
constexpr Index product_workspace(Index workspace_bytes) {
  constexpr Index kRecommended = Index{32} << 20;
  const Index third = workspace_bytes / 3 / 256 * 256;
  return third < kRecommended ? third : kRecommended;
}

/// What a kernel says when the workspace is too small.
inline constexpr const char* kWorkspaceTooSmall = "the workspace is too small for the sizes";

}  // namespace dos::codelets
