// SPDX-License-Identifier: Apache-2.0
#include "platform/mpi.hpp"

#include <mpi.h>

#include <algorithm>
#include <array>

#include "base/error.hpp"

namespace dos::platform {

MpiEnvironment::MpiEnvironment(int& argc, char**& argv) {
  int provided = 0;
  expect(MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided) == MPI_SUCCESS,
         "MPI_Init_thread failed: start the program with mpiexec, srun or alone");
  int rank = 0;
  int size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  rank_ = rank;
  size_ = size;
}

MpiEnvironment::~MpiEnvironment() {
  MPI_Finalize();
}

std::string MpiEnvironment::library_version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  std::string version(text.data(), static_cast<std::size_t>(length));
  version.resize(std::min(version.find('\n'), version.size()));
  std::replace(version.begin(), version.end(), '\t', ' ');
  return version;
}

}  // namespace dos::platform
