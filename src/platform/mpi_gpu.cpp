// SPDX-License-Identifier: Apache-2.0
#include <mpi.h>

#include "platform/mpi.hpp"

namespace dos::platform {

bool MpiEnvironment::is_cuda_aware() {
  static const bool answer = [] {
    int is_supported = 0;
    return MPIX_GPU_query_support(MPIX_GPU_SUPPORT_CUDA, &is_supported) == MPI_SUCCESS &&
           is_supported != 0;
  }();
  return answer;
}

}  // namespace dos::platform
