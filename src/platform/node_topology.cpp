// SPDX-License-Identifier: Apache-2.0
#include "platform/node_topology.hpp"

#include <fmt/format.h>
#include <hwloc.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.hpp"

namespace dos::platform {
namespace {

/// Whether a PCI device is an NVIDIA GPU, whatever driver it has.
bool is_nvidia_gpu(const hwloc_obj& device) {
  constexpr unsigned kNvidia = 0x10de;
  constexpr unsigned kDisplayControllers = 0x03;  // the upper byte of the PCI class
  const auto& pci = device.attr->pcidev;
  return pci.vendor_id == kNvidia && pci.class_id >> 8U == kDisplayControllers;
}

struct FreeBitmap {
  void operator()(hwloc_bitmap_s* bitmap) const { hwloc_bitmap_free(bitmap); }
};
using Bitmap = std::unique_ptr<hwloc_bitmap_s, FreeBitmap>;

Bitmap empty_bitmap() {
  Bitmap bitmap(hwloc_bitmap_alloc());
  expect(bitmap != nullptr, "hwloc has no memory");
  return bitmap;
}

hwloc_topology_t new_topology() {
  hwloc_topology_t topology = nullptr;
  expect(hwloc_topology_init(&topology) == 0, "hwloc cannot initialise");
  // PCI devices; without it hwloc does not look for them.
  hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  // It would load OpenCL's drivers for names of devices that nobody asks for.
  hwloc_topology_set_components(topology, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "opencl");
  return topology;
}

/// Cores, or hardware threads on machines that hwloc sees no cores of.
hwloc_obj_type_t core_type(hwloc_topology_t topology) {
  return hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE) > 0 ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
}

Index first_numa(hwloc_const_nodeset_t nodes) {
  return nodes == nullptr ? -1 : Index{hwloc_bitmap_first(nodes)};
}

template <class Function>
void for_each_core(hwloc_topology_t topology, Function&& function) {
  const hwloc_obj_type_t type = core_type(topology);
  hwloc_obj_t core = nullptr;
  while ((core = hwloc_get_next_obj_by_type(topology, type, core)) != nullptr)
    function(core, Index{hwloc_bitmap_first(core->cpuset)});
}

/// All hardware threads of some cores.
Bitmap units_of(hwloc_topology_t topology, const std::vector<Index>& cores) {
  Bitmap units = empty_bitmap();
  for_each_core(topology, [&](hwloc_obj_t core, Index number) {
    if (std::ranges::count(cores, number) > 0)
      hwloc_bitmap_or(units.get(), units.get(), core->cpuset);
  });
  require(hwloc_bitmap_iszero(units.get()) == 0, "at least one core is bound to");
  return units;
}

}  // namespace

void NodeTopology::Destroy::operator()(hwloc_topology* topology) const {
  hwloc_topology_destroy(topology);
}

NodeTopology NodeTopology::of_this_machine() {
  Owner topology(new_topology());
  expect(hwloc_topology_load(topology.get()) == 0, "hwloc cannot read the machine's topology");
  return NodeTopology(std::move(topology));
}

NodeTopology NodeTopology::synthetic(const std::string& description) {
  Owner topology(new_topology());
  expect(hwloc_topology_set_synthetic(topology.get(), description.c_str()) == 0 &&
             hwloc_topology_load(topology.get()) == 0,
         "hwloc does not understand the topology '{}'", description);
  return NodeTopology(std::move(topology));
}

NodeTopology NodeTopology::from_xml(const std::filesystem::path& file) {
  Owner topology(new_topology());
  expect(hwloc_topology_set_xml(topology.get(), file.c_str()) == 0 &&
             hwloc_topology_load(topology.get()) == 0,
         "{}: hwloc cannot read it: write it with lstopo FILE.xml", file.string());
  return NodeTopology(std::move(topology));
}

Node NodeTopology::node() const {
  Node node;
  for_each_core(topology_.get(), [&](hwloc_obj_t core, Index number) {
    node.cores.push_back({.number = number, .numa = first_numa(core->nodeset)});
  });
  hwloc_obj_t device = nullptr;
  while ((device = hwloc_get_next_pcidev(topology_.get(), device)) != nullptr) {
    if (!is_nvidia_gpu(*device)) continue;
    const auto& pci = device->attr->pcidev;
    const hwloc_obj_t place = hwloc_get_non_io_ancestor_obj(topology_.get(), device);
    node.gpus.push_back(
        {.bus = fmt::format("{:04x}:{:02x}:{:02x}.{:x}", pci.domain, pci.bus, pci.dev, pci.func),
         .numa = hwloc_bitmap_weight(place->nodeset) == 1 ? first_numa(place->nodeset) : -1});
  }
  return node;
}

std::vector<Index> NodeTopology::bound_cores() const {
  const Bitmap bound = empty_bitmap();
  if (hwloc_get_cpubind(topology_.get(), bound.get(), HWLOC_CPUBIND_PROCESS) != 0)
    hwloc_bitmap_fill(bound.get());
  std::vector<Index> cores;
  for_each_core(topology_.get(), [&](hwloc_obj_t core, Index number) {
    if (hwloc_bitmap_intersects(core->cpuset, bound.get()) != 0) cores.push_back(number);
  });
  return cores;
}

void NodeTopology::bind_process(const std::vector<Index>& cores) const {
  const Bitmap units = units_of(topology_.get(), cores);
  expect(hwloc_set_cpubind(topology_.get(), units.get(), HWLOC_CPUBIND_PROCESS) == 0,
         "the system does not bind this process to the cores {}: {}", ranges(cores),
         std::strerror(errno));
}

bool NodeTopology::bind_thread(pthread_t thread, const std::vector<Index>& cores) const {
  const Bitmap units = units_of(topology_.get(), cores);
  return hwloc_set_thread_cpubind(topology_.get(), thread, units.get(), 0) == 0;
}

bool NodeTopology::prefer_memory(const std::vector<Index>& numa) const {
  const Bitmap nodes = empty_bitmap();
  for (const Index node : numa) hwloc_bitmap_set(nodes.get(), static_cast<unsigned>(node));
  require(hwloc_bitmap_iszero(nodes.get()) == 0, "at least one NUMA node is preferred");
  const hwloc_membind_policy_t policy =
      numa.size() > 1 ? HWLOC_MEMBIND_INTERLEAVE : HWLOC_MEMBIND_BIND;
  return hwloc_set_membind(topology_.get(), nodes.get(), policy,
                           HWLOC_MEMBIND_THREAD | HWLOC_MEMBIND_BYNODESET) == 0;
}

}  // namespace dos::platform
