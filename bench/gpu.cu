// SPDX-License-Identifier: Apache-2.0
#include "gpu.hpp"

#include <cublasLt.h>

#include <stdexcept>

namespace dos::bench {
namespace {

/// Larger than the second-level cache of any GPU.
constexpr Index kFlushBytes = Index{256} << 20;
constexpr Index kWorkspaceBytes = Index{96} << 20;

void check(cudaError_t result, const char* what) {
  if (result != cudaSuccess)
    throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(result));
}

}  // namespace

std::string gpu_name() {
  int device = 0;
  check(cudaGetDevice(&device), "no GPU to measure");
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, device), "properties of the GPU");
  return std::string(properties.name) + ", " + std::to_string(properties.multiProcessorCount) +
         " processors, compute capability " + std::to_string(properties.major) + "." +
         std::to_string(properties.minor);
}

bool gpu_is_usable() {
  // A launch that was refused is told once; what a kernel has broken is told each time.
  static_cast<void>(cudaGetLastError());
  return cudaDeviceSynchronize() == cudaSuccess;
}

GpuMemory::GpuMemory(Index bytes) : bytes_(bytes) {
  check(cudaMalloc(&memory_, static_cast<std::size_t>(bytes)), "device memory");
}
GpuMemory::~GpuMemory() {
  cudaFree(memory_);
}
void GpuMemory::copy_from(const void* host) const {
  check(cudaMemcpy(memory_, host, static_cast<std::size_t>(bytes_), cudaMemcpyHostToDevice),
        "copy to the device");
}
void GpuMemory::copy_to(void* host) const {
  check(cudaMemcpy(host, memory_, static_cast<std::size_t>(bytes_), cudaMemcpyDeviceToHost),
        "copy from the device");
}

struct GpuTimer::State {
  GpuMemory workspace{kWorkspaceBytes};
  GpuMemory flushed{kFlushBytes};
  cudaStream_t stream = nullptr;
  cudaEvent_t before = nullptr;
  cudaEvent_t after = nullptr;
  std::shared_ptr<void> kept;
  codelets::CudaContext context{};
};

GpuTimer::GpuTimer() : state_(std::make_unique<State>()) {
  check(cudaStreamCreate(&state_->stream), "a stream");
  check(cudaEventCreate(&state_->before), "an event");
  check(cudaEventCreate(&state_->after), "an event");
  state_->context = {state_->stream, state_->workspace.get(), kWorkspaceBytes, nullptr,
                     &state_->kept};
  if (cublasLtCreate(&state_->context.blas) != CUBLAS_STATUS_SUCCESS)
    throw std::runtime_error("cuBLAS does not start");
}

GpuTimer::~GpuTimer() {
  // What kernels keep may hold the stream.
  state_->kept.reset();
  cublasLtDestroy(state_->context.blas);
  cudaEventDestroy(state_->after);
  cudaEventDestroy(state_->before);
  cudaStreamDestroy(state_->stream);
}

const codelets::CudaContext& GpuTimer::context() const {
  return state_->context;
}

double GpuTimer::milliseconds(const std::function<const char*()>& work) {
  check(cudaMemsetAsync(state_->flushed.get(), 0, kFlushBytes, state_->stream), "a fill");
  check(cudaEventRecord(state_->before, state_->stream), "an event");
  if (const char* fault = work()) throw std::runtime_error(fault);
  check(cudaEventRecord(state_->after, state_->stream), "an event");
  check(cudaEventSynchronize(state_->after), "the measured work");
  float result = 0;
  check(cudaEventElapsedTime(&result, state_->before, state_->after), "events");
  return result;
}

const char* GpuTimer::copy(const GpuMemory& from, const GpuMemory& to, Index bytes) const {
  const cudaError_t result = cudaMemcpyAsync(to.get(), from.get(), static_cast<std::size_t>(bytes),
                                             cudaMemcpyDeviceToDevice, state_->stream);
  return result == cudaSuccess ? nullptr : cudaGetErrorString(result);
}

}  // namespace dos::bench
