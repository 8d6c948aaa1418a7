// SPDX-License-Identifier: Apache-2.0
// Without MPI, or with one that cannot be asked: MPICH before 3.4, some of its relatives.
#include "platform/mpi.hpp"

namespace dos::platform {

bool MpiEnvironment::is_cuda_aware() {
  return false;
}

}  // namespace dos::platform
