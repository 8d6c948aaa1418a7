// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/scoped_environment.hpp"
#include "base/types.hpp"

namespace dos::platform {

/// What of the machine this process may use, as hwloc sees it.
struct Topology {
  std::string processor;  ///< model name, "" when unknown
  Index packages = 0;
  Index numa_nodes = 0;
  Index cores = 0;
  Index processing_units = 0;
  Index memory_bytes = 0;            ///< of the NUMA nodes
  Index last_level_cache_bytes = 0;  ///< of all caches of the outermost level together
};

/// Throws Error when hwloc cannot read the machine.
Topology read_topology();

/// The name of this machine, without a domain where the system gives none.
std::string host_name();

/// "2.9.0".
std::string hwloc_version();

/// Bytes of host memory that the kernel manages, whatever limits this process has.
Index physical_memory_bytes();

/// Has hwloc do without these components (HWLOC_COMPONENTS) while `environment` lives, unless the
/// user has set that, or makes up a machine by the environment, which hwloc would forget for it.
void leave_out_components(ScopedEnvironment& environment, const char* components);

}  // namespace dos::platform
