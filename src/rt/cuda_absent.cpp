// SPDX-License-Identifier: Apache-2.0
// For a StarPU without CUDA.
#include "base/error.hpp"
#include "rt/cuda.hpp"

namespace dos::rt {

bool has_cuda() {
  return false;
}

CudaStream cuda_stream() {
  fail("this StarPU was built without CUDA");
}

}  // namespace dos::rt
