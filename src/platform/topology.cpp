// SPDX-License-Identifier: Apache-2.0
#include "platform/topology.hpp"

#include <hwloc.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <memory>
#include <optional>

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

/// The first number of a file, if it exists and starts with one ("max" does not).
std::optional<Index> number_in(const std::string& path) {
  std::ifstream file(path);
  Index value = 0;
  if (file >> value) return value;
  return std::nullopt;
}

Index kernel_available_bytes() {
  std::ifstream file("/proc/meminfo");
  std::string key;
  Index kib = 0;
  std::string unit;
  while (file >> key >> kib) {
    std::getline(file, unit);
    if (key == "MemAvailable:") return kib * 1024;
  }
  return std::numeric_limits<Index>::max();
}

/// Limit minus use of this process's control group (version 2), if there is a limit.
std::optional<Index> control_group_available_bytes() {
  std::ifstream file("/proc/self/cgroup");
  std::string line;
  while (std::getline(file, line)) {
    if (!line.starts_with("0::")) continue;
    const std::string folder = "/sys/fs/cgroup" + line.substr(3);
    const auto limit = number_in(folder + "/memory.max");
    const auto used = number_in(folder + "/memory.current");
    if (limit && used) return std::max<Index>(0, *limit - *used);
  }
  return std::nullopt;
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
  return result;
}

std::string hwloc_version() {
  return HWLOC_VERSION;
}

Index available_memory_bytes() {
  const Index kernel = kernel_available_bytes();
  return std::min(kernel, control_group_available_bytes().value_or(kernel));
}

}  // namespace dos::platform
