// SPDX-License-Identifier: Apache-2.0
#include "rt/cuda.hpp"

#include <starpu.h>
#include <starpu_cuda.h>

namespace dos::rt {

bool has_cuda() {
  return true;
}

CudaStream cuda_stream() {
  return starpu_cuda_get_local_stream();
}

}  // namespace dos::rt
