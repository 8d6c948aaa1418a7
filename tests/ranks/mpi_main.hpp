// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "platform/mpi.hpp"

namespace dos::ranks {

/// MPI of the test program, from the start of its main().
extern platform::MpiEnvironment* environment;

}  // namespace dos::ranks
