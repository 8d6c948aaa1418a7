// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/types.hpp"

struct CUstream_st;
struct cublasLtContext;

namespace dos::rt {

/// cudaStream_t
using CudaStream = CUstream_st*;

/// False when StarPU was built without CUDA.
bool has_cuda();

/// The PCI addresses of the CUDA devices that this process sees, by their number, as
/// platform::Gpu::bus; none when StarPU was built without CUDA or there is no driver.
std::vector<std::string> cuda_bus_ids();

/// The least compute capability of the CUDA devices that this process sees, 90 for 9.0; 0 where
/// cuda_bus_ids() names none.
int least_cuda_capability();

/// CUDA's number of the device of a CUDA worker of the running session.
int cuda_device_of(int worker);

/// Makes a device the calling thread's, for libraries that look for one. Throws Error when it
/// cannot be used or StarPU was built without CUDA.
void use_cuda_device(int device);

/// Forgets the last error of a CUDA call on this thread. On a full device StarPU asks for memory
/// until there is some, and leaves the error of an attempt in vain behind: whoever starts a kernel
/// next would take it for that kernel's. Throws Error when StarPU was built without CUDA.
void forget_cuda_error();

/// The stream of the running CUDA worker. Throws Error when StarPU was built without CUDA.
CudaStream cuda_stream();

/// What a task on a CUDA worker finds there beside its buffers. The worker's tasks run one after
/// another on its stream: they may all use the same memory, and none finds there what it left.
struct CudaWorkspace {
  void* memory = nullptr;  ///< device memory
  Index bytes = 0;
  cublasLtContext* blas = nullptr;  ///< cublasLtHandle_t
  /// What kernels keep for the worker's next tasks; it ends with the workspaces, on the worker.
  std::shared_ptr<void>* kept = nullptr;
};

/// Of the running CUDA worker. Throws Error when StarPU was built without CUDA.
CudaWorkspace cuda_workspace();

/// Calls the function on each CUDA worker of the running session, on its thread and with its device
/// current, and waits; rethrows what one of them threw. No tasks may be pending.
void on_cuda_workers(const std::function<void()>& function);

/// The least device memory of a workspace: what products of matrices want
/// (codelets::product_workspace()), and twice as much for blocks of a weight that they take
/// together.
inline constexpr Index kCudaWorkspaceBytes = Index{96} << 20;

/// The workspaces of all CUDA workers of the running StarPU, counted by it as used device memory:
/// tasks allocate nothing. Only one may exist at a time.
class CudaWorkspaces {
 public:
  /// Each of `bytes`. Throws Error when a device has no room or cuBLAS does not start.
  explicit CudaWorkspaces(Index bytes);
  CudaWorkspaces(const CudaWorkspaces&) = delete;
  CudaWorkspaces& operator=(const CudaWorkspaces&) = delete;
  ~CudaWorkspaces();
};

}  // namespace dos::rt
