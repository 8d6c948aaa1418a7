// SPDX-License-Identifier: Apache-2.0
#pragma once

struct CUstream_st;

namespace dos::rt {

/// cudaStream_t
using CudaStream = CUstream_st*;

/// False when StarPU was built without CUDA.
bool has_cuda();

/// The stream of the running CUDA worker. Throws Error when StarPU was built without CUDA.
CudaStream cuda_stream();

}  // namespace dos::rt
