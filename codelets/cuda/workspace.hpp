// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/types.hpp"

struct CUstream_st;
struct cublasLtContext;

namespace dos::codelets {

/// What CUDA kernels need beside their arrays. What the workspace held does not matter, and nothing
/// stays in it: whatever follows on the stream may overwrite it.
struct CudaContext {
  CUstream_st* stream;
  void* workspace;  ///< device memory, aligned to 256 bytes
  Index workspace_bytes;
  cublasLtContext* blas;  ///< needed by matrix products alone
};

/// What a kernel says when the workspace is too small.
inline constexpr const char* kWorkspaceTooSmall = "the workspace is too small for the sizes";

}  // namespace dos::codelets
