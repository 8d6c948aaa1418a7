// SPDX-License-Identifier: Apache-2.0
#include "platform/topology.hpp"

#include <hwloc.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <string>

#include "base/error.hpp"

namespace dos::platform {
namespace {

struct DestroyTopology {
  void operator()(hwloc_topology* topology) const { hwloc_topology_destroy(topology); }
};

std::unique_ptr<hwloc_topology, DestroyTopology> load() {
  hwloc_topology_t raw = nullptr;
  expect(hwloc_topology_init(&raw) == 0, "hwloc cannot initialise");
  std::unique_ptr<hwloc_topology, DestroyTopology> topology(raw);
  expect(hwloc_topology_load(raw) == 0, "hwloc cannot read the machine's topology");
  return topology;
}

Index cache_bytes(hwloc_topology_t topology) {
  for (const hwloc_obj_type_t level : {HWLOC_OBJ_L5CACHE, HWLOC_OBJ_L4CACHE, HWLOC_OBJ_L3CACHE,
                                       HWLOC_OBJ_L2CACHE, HWLOC_OBJ_L1CACHE}) {
    Index bytes = 0;
    hwloc_obj_t cache = nullptr;
    while ((cache = hwloc_get_next_obj_by_type(topology, level, cache)) != nullptr)
      bytes += static_cast<Index>(cache->attr->cache.size);
    if (bytes > 0) return bytes;
  }
  return 0;
}

}  // namespace

Topology read_topology() {
  const auto topology = load();
  const auto count = [&](hwloc_obj_type_t type) -> Index {
    return hwloc_get_nbobjs_by_type(topology.get(), type);
  };
  Topology result;
  result.packages = count(HWLOC_OBJ_PACKAGE);
  result.numa_nodes = count(HWLOC_OBJ_NUMANODE);
  result.cores = count(HWLOC_OBJ_CORE);
  result.processing_units = count(HWLOC_OBJ_PU);
  const hwloc_obj_t root = hwloc_get_root_obj(topology.get());
  result.memory_bytes = static_cast<Index>(root->total_memory);
  const hwloc_obj_t package = hwloc_get_obj_by_type(topology.get(), HWLOC_OBJ_PACKAGE, 0);
  const char* model =
      package == nullptr ? nullptr : hwloc_obj_get_info_by_name(package, "CPUModel");
  if (model != nullptr) result.processor = model;
  result.last_level_cache_bytes = cache_bytes(topology.get());
  return result;
}

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "localhost";
  return name.data();
}

std::string hwloc_version() {
  return HWLOC_VERSION;
}

Index physical_memory_bytes() {
  return Index{::sysconf(_SC_PHYS_PAGES)} * Index{::sysconf(_SC_PAGESIZE)};
}

void leave_out_components(ScopedEnvironment& environment, const char* components) {
  for (const char* made_up : {"HWLOC_XMLFILE", "HWLOC_SYNTHETIC", "HWLOC_FSROOT"})
    if (std::getenv(made_up) != nullptr) return;
  environment.set_default("HWLOC_COMPONENTS", components);
}

}  // namespace dos::platform
