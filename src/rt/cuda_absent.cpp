// SPDX-License-Identifier: Apache-2.0
// For a StarPU without CUDA.
#include "base/error.hpp"
#include "rt/cuda.hpp"
#include "rt/cuda_memory.hpp"

namespace dos::rt {
namespace {

constexpr const char* kAbsent = "this StarPU was built without CUDA";

}  // namespace

bool has_cuda() {
  return false;
}

std::vector<std::string> cuda_bus_ids() {
  return {};
}

std::vector<Index> cuda_memory_bytes() {
  return {};
}

Index cuda_free_bytes(int /*device*/) {
  fail("{}", kAbsent);
}

int least_cuda_capability() {
  return 0;
}

int cuda_device_of(int /*worker*/) {
  fail("{}", kAbsent);
}

void use_cuda_device(int /*device*/) {
  fail("{}", kAbsent);
}

void forget_cuda_error() {
  fail("{}", kAbsent);
}

CudaStream cuda_stream() {
  fail("{}", kAbsent);
}

CudaWorkspace cuda_workspace() {
  fail("{}", kAbsent);
}

// There are no CUDA workers.
void on_cuda_workers(const std::function<void()>& /*function*/) {}
CudaWorkspaces::CudaWorkspaces(Index /*bytes*/) {}
CudaWorkspaces::~CudaWorkspaces() = default;

}  // namespace dos::rt
