// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/error.hpp"
#include "codelets/cuda/compiled.hpp"
#include "codelets/cuda/workspace.hpp"
#include "rt/codelet.hpp"

/// The CUDA implementations of codelets: what is not compiled is not called.
namespace dos::codelets {

/// A task for make_codelet, null where CUDA kernels do not run.
template <rt::CudaTask kTask>
inline constexpr rt::CudaTask kOnCuda = kRunsCudaKernels ? kTask : nullptr;

/// Calls kernel(context) with what the running CUDA worker has; Throws Error with what the kernel
/// says.
template <class Kernel>
void start_on_cuda(rt::CudaStream stream, Kernel&& kernel) {
  if constexpr (kRunsCudaKernels) {
    const rt::CudaWorkspace own = rt::cuda_workspace();
    const char* fault = kernel(CudaContext{stream, own.memory, own.bytes, own.blas});
    expect(fault == nullptr, "CUDA: {}", fault == nullptr ? "" : fault);
  }
}

}  // namespace dos::codelets
