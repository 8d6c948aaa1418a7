// SPDX-License-Identifier: Apache-2.0
#include "rt/cuda.hpp"

#include <cublasLt.h>
#include <starpu.h>
#include <starpu_cuda.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <exception>
#include <mutex>

#include "base/error.hpp"
#include "rt/cuda_memory.hpp"

namespace dos::rt {
namespace {

struct WorkerState {
  CudaWorkspace workspace;
  std::shared_ptr<void> kept;
  std::uintptr_t allocation = 0;
  const char* fault = nullptr;
};

/// By worker number. StarPU calls its workers back with one argument for all of them, and tasks
/// with none: they find their own here.
std::array<WorkerState, STARPU_NMAXWORKERS> worker_states;

WorkerState& own_state() {
  return worker_states[static_cast<std::size_t>(starpu_worker_get_id_check())];
}

unsigned own_node() {
  return starpu_worker_get_memory_node(static_cast<unsigned>(starpu_worker_get_id_check()));
}

// Both run on the worker's thread, with its device current.
void open_workspace(void* bytes) noexcept {
  WorkerState& state = own_state();
  state = {};
  state.workspace.bytes = *static_cast<const Index*>(bytes);
  state.workspace.kept = &state.kept;
  state.allocation =
      starpu_malloc_on_node(own_node(), static_cast<std::size_t>(state.workspace.bytes));
  if (state.allocation == 0) {
    state.fault = "there is no room on the device";
    return;
  }
  state.workspace.memory = reinterpret_cast<void*>(state.allocation);
  const cublasStatus_t status = cublasLtCreate(&state.workspace.blas);
  if (status != CUBLAS_STATUS_SUCCESS) state.fault = cublasLtGetStatusString(status);
}

void close_workspace(void* /*unused*/) noexcept {
  WorkerState& state = own_state();
  state.kept.reset();
  if (state.workspace.blas != nullptr) cublasLtDestroy(state.workspace.blas);
  if (state.allocation != 0)
    starpu_free_on_node(own_node(), state.allocation,
                        static_cast<std::size_t>(state.workspace.bytes));
  state = {};
}

void on_each_cuda_worker(void (*function)(void*), void* argument = nullptr) {
  if (starpu_cuda_worker_get_count() > 0)
    starpu_execute_on_each_worker(function, argument, STARPU_CUDA);
}

}  // namespace

bool has_cuda() {
  return true;
}

std::vector<std::string> cuda_bus_ids() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) return {};
  std::vector<std::string> buses;
  for (int device = 0; device < count; ++device) {
    std::array<char, 32> bus{};
    expect(cudaDeviceGetPCIBusId(bus.data(), static_cast<int>(bus.size()), device) == cudaSuccess,
           "CUDA device {} has no PCI address: see nvidia-smi", device);
    std::string text = bus.data();
    std::ranges::transform(text, text.begin(), [](char c) {
      return static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    });
    buses.push_back(std::move(text));
  }
  return buses;
}

std::vector<Index> cuda_memory_bytes() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) return {};
  std::vector<Index> bytes;
  for (int device = 0; device < count; ++device) {
    cudaDeviceProp properties{};
    expect(cudaGetDeviceProperties(&properties, device) == cudaSuccess,
           "CUDA device {} does not say what it is: see nvidia-smi", device);
    bytes.push_back(static_cast<Index>(properties.totalGlobalMem));
  }
  return bytes;
}

Index cuda_free_bytes(int device) {
  use_cuda_device(device);
  std::size_t free = 0;
  std::size_t total = 0;
  const cudaError_t status = cudaMemGetInfo(&free, &total);
  expect(status == cudaSuccess, "CUDA device {} does not say how much memory is free: {}", device,
         cudaGetErrorString(status));
  return static_cast<Index>(free);
}

int least_cuda_capability() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) return 0;
  int least = 0;
  for (int device = 0; device < count; ++device) {
    int major = 0;
    int minor = 0;
    expect(
        cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess &&
            cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) ==
                cudaSuccess,
        "CUDA device {} does not say what it is: see nvidia-smi", device);
    const int capability = 10 * major + minor;
    if (device == 0 || capability < least) least = capability;
  }
  return least;
}

int cuda_device_of(int worker) {
  return starpu_worker_get_devid(worker);
}

void use_cuda_device(int device) {
  const cudaError_t status = cudaSetDevice(device);
  expect(status == cudaSuccess, "CUDA device {} cannot be used by another thread: {}", device,
         cudaGetErrorString(status));
}

void forget_cuda_error() {
  // Faults of a kernel make the device useless, and come again.
  static_cast<void>(cudaGetLastError());
}

CudaStream cuda_stream() {
  return starpu_cuda_get_local_stream();
}

CudaWorkspace cuda_workspace() {
  return own_state().workspace;
}

void on_cuda_workers(const std::function<void()>& function) {
  struct Call {
    const std::function<void()>* function;
    std::mutex mutex;
    std::exception_ptr fault;
  };
  Call call{&function, {}, {}};
  const auto run = [](void* argument) noexcept {
    auto& of = *static_cast<Call*>(argument);
    try {
      (*of.function)();
    } catch (...) {
      const std::scoped_lock lock(of.mutex);
      of.fault = std::current_exception();
    }
  };
  on_each_cuda_worker(run, &call);
  if (call.fault) std::rethrow_exception(call.fault);
}

CudaWorkspaces::CudaWorkspaces(Index bytes) {
  on_each_cuda_worker(&open_workspace, &bytes);
  for (const WorkerState& state : worker_states) {
    if (state.fault == nullptr) continue;
    const char* fault = state.fault;
    on_each_cuda_worker(&close_workspace);
    fail("a GPU has no workspace of {} MiB for its kernels: {}", bytes >> 20, fault);
  }
}

CudaWorkspaces::~CudaWorkspaces() {
  on_each_cuda_worker(&close_workspace);
}

}  // namespace dos::rt
