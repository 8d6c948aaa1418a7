// SPDX-License-Identifier: Apache-2.0
// For a StarPU without CUDA.
#include "base/error.hpp"
#include "rt/cuda.hpp"

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

CudaStream cuda_stream() {
  fail("{}", kAbsent);
}

CudaWorkspace cuda_workspace() {
  fail("{}", kAbsent);
}

// There are no CUDA workers.
CudaWorkspaces::CudaWorkspaces() = default;
CudaWorkspaces::~CudaWorkspaces() = default;

}  // namespace dos::rt
