// SPDX-License-Identifier: Apache-2.0
#include "codelets/cuda_device.hpp"

#include <cublasLt.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace dos::test {
namespace {

constexpr Index kZone = 512;
constexpr int kSentinel = 0x5A;
constexpr Index kWorkspaceBytes = Index{32} << 20;

/// For what a test cannot go on without.
void demand(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(cudaGetLastError()));
  std::abort();
}

codelets::CudaContext make_context() {
  codelets::CudaContext context{};
  context.workspace_bytes = kWorkspaceBytes;
  demand(cudaMalloc(&context.workspace, kWorkspaceBytes) == cudaSuccess, "a workspace");
  // What kernels find there must not matter.
  demand(cudaMemset(context.workspace, 0xFF, kWorkspaceBytes) == cudaSuccess, "a workspace");
  // Stays to the end of the process: at the time of static destructors the libraries that are
  // needed to end it may have ended themselves.
  static auto* const kept = new std::shared_ptr<void>;
  context.kept = kept;
  demand(cublasLtCreate(&context.blas) == CUBLAS_STATUS_SUCCESS, "cuBLAS");
  return context;
}

}  // namespace

int cuda_devices() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

int cuda_capability() {
  cudaDeviceProp properties{};
  demand(cudaGetDeviceProperties(&properties, 0) == cudaSuccess, "properties");
  return 10 * properties.major + properties.minor;
}

const codelets::CudaContext& cuda_context() {
  static const codelets::CudaContext context = make_context();
  return context;
}

const char* wait_for_cuda() {
  const cudaError_t result = cudaDeviceSynchronize();
  return result == cudaSuccess ? nullptr : cudaGetErrorString(result);
}

OnGpu::OnGpu(const void* host, Index bytes, Index offset) : bytes_(bytes) {
  const auto all = static_cast<std::size_t>(kZone + offset + bytes + kZone);
  demand(cudaMalloc(&memory_, all) == cudaSuccess, "device memory");
  demand(cudaMemset(memory_, kSentinel, all) == cudaSuccess, "device memory");
  data_ = static_cast<std::byte*>(memory_) + kZone + offset;
  demand(cudaMemcpy(data_, host, static_cast<std::size_t>(bytes), cudaMemcpyHostToDevice) ==
             cudaSuccess,
         "a copy");
}

OnGpu::~OnGpu() {
  const Index before = static_cast<std::byte*>(data_) - static_cast<std::byte*>(memory_);
  std::vector<unsigned char> all(static_cast<std::size_t>(before + bytes_ + kZone));
  demand(cudaMemcpy(all.data(), memory_, all.size(), cudaMemcpyDeviceToHost) == cudaSuccess,
         "a copy");
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto at = static_cast<Index>(i) - before;
    if ((at < 0 || at >= bytes_) && all[i] != kSentinel) {
      std::fprintf(stderr, "byte %ld of an array of %ld in device memory was written\n",
                   static_cast<long>(at), static_cast<long>(bytes_));
      std::abort();
    }
  }
  cudaFree(memory_);
}

void OnGpu::copy_to(void* host) const {
  demand(cudaMemcpy(host, data_, static_cast<std::size_t>(bytes_), cudaMemcpyDeviceToHost) ==
             cudaSuccess,
         "a copy");
}

}  // namespace dos::test
