// SPDX-License-Identifier: Apache-2.0
#include "platform/topology.hpp"

#include <hwloc.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "base/error.hpp"
#include "platform/nvidia_pci.hpp"

namespace dos::platform {
namespace {

struct DestroyTopology {
  void operator()(hwloc_topology* topology) const { hwloc_topology_destroy(topology); }
};

std::unique_ptr<hwloc_topology, DestroyTopology> load() {
  hwloc_topology_t raw = nullptr;
  expect(hwloc_topology_init(&raw) == 0, "hwloc cannot initialise");
  std::unique_ptr<hwloc_topology, DestroyTopology> topology(raw);
  // PCI devices; without it hwloc does not look for them.
  hwloc_topology_set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
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

Index count_nvidia_gpus(hwloc_topology_t topology) {
  Index count = 0;
  hwloc_obj_t device = nullptr;
  while ((device = hwloc_get_next_pcidev(topology, device)) != nullptr)
    count += is_nvidia_gpu(*device) ? 1 : 0;
  return count;
}

/// The first number of a file, if it exists and starts with one ("max" does not).
std::optional<Index> number_in(const std::filesystem::path& path) {
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

/// Where one version of control groups keeps a group's memory limit and use.
struct ControlGroupFiles {
  const char* line;  ///< how the group's line in /proc/self/cgroup starts, after its number
  const char* root;
  const char* limit;
  const char* used;
  const char* reclaimable;  ///< key in memory.stat: cached file pages that count as used
};

constexpr std::array kControlGroups{
    ControlGroupFiles{"::", "/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"},
    ControlGroupFiles{":memory:", "/sys/fs/cgroup/memory", "memory.limit_in_bytes",
                      "memory.usage_in_bytes", "total_inactive_file"}};

/// The number behind `key` in a file of "key number" lines, 0 when there is none.
Index value_in(const std::filesystem::path& path, const std::string& key) {
  std::ifstream file(path);
  std::string word;
  for (Index value = 0; file >> word >> value;)
    if (word == key) return value;
  return 0;
}

/// What one control group leaves of its limit, if it has one.
std::optional<Index> available_in(const std::filesystem::path& group,
                                  const ControlGroupFiles& files) {
  const auto limit = number_in(group / files.limit);
  const auto used = number_in(group / files.used);
  if (!limit || !used) return std::nullopt;
  return std::max<Index>(0, *limit - *used + value_in(group / "memory.stat", files.reclaimable));
}

/// The least that this process's control group and the groups around it leave of their limits.
Index control_group_available_bytes() {
  Index available = std::numeric_limits<Index>::max();
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::string entry = line.substr(std::min(line.find(':'), line.size()));
    for (const ControlGroupFiles& files : kControlGroups) {
      if (!entry.starts_with(files.line)) continue;
      std::filesystem::path group = files.root + entry.substr(std::strlen(files.line));
      for (; group.string().size() >= std::strlen(files.root); group = group.parent_path())
        available = std::min(available, available_in(group, files).value_or(available));
    }
  }
  return available;
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
  result.nvidia_gpus = count_nvidia_gpus(topology.get());
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

Index available_memory_bytes() {
  return std::min(kernel_available_bytes(), control_group_available_bytes());
}

}  // namespace dos::platform
