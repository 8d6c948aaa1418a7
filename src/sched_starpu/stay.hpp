// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace dos::sched_starpu {

/// How an update uses the memory of the GPU that runs it.
enum class Stay : std::uint8_t {
  kStreams,   ///< its states come and go
  kArrives,   ///< they come to stay
  kResident,  ///< they are there
};

}  // namespace dos::sched_starpu
