// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <starpu.h>

#include "base/sanitizer.hpp"
#include "base/scoped_environment.hpp"
#include "rt/session.hpp"

namespace dos::test {

/// Makes hwloc and StarPU believe in two NUMA nodes of one core for as long as it lives. The second
/// is a memory node of StarPU like a GPU's, with copies of its own, whose addresses a CPU can use:
/// it stands in for a GPU where MPI would use the GPU's.
class TwoMemoryNodes {
 public:
  static constexpr int kSecond = 1;
  /// Why there cannot be two, null when there can.
  static constexpr const char* kObstacle =
      kHasThreadSanitizer ? "StarPU copies between NUMA nodes under locks of its own, which the "
                            "thread sanitizer does not see"
      : STARPU_MAXNUMANODES >= 2 ? nullptr
                                 : "StarPU was built for one NUMA node, and ends at two";

  /// `megabytes`: the second one's memory, null for all that there is.
  explicit TwoMemoryNodes(const char* megabytes = nullptr) {
    environment_.set_default("HWLOC_SYNTHETIC", "numa:2 core:1 pu:1");
    environment_.set_default("STARPU_USE_NUMA", "1");
    if (megabytes != nullptr) environment_.set_default("STARPU_LIMIT_CPU_NUMA_1_MEM", megabytes);
  }

  /// For a session that uses both.
  [[nodiscard]] static rt::SessionConfig session() { return {.scheduler = "", .cpu_workers = 2}; }

 private:
  ScopedEnvironment environment_;
};

}  // namespace dos::test
