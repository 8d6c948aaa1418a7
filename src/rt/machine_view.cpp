// SPDX-License-Identifier: Apache-2.0
#include "rt/machine_view.hpp"

#include <starpu.h>

#include <array>

namespace dos::rt {
namespace {

constexpr double kMega = 1e6;

const char* kind_of(int worker) {
  switch (starpu_worker_get_type(worker)) {
    case STARPU_CPU_WORKER:
      return "cpu";
    case STARPU_CUDA_WORKER:
      return "cuda";
    case STARPU_OPENCL_WORKER:
      return "opencl";
    default:
      return "other";
  }
}

MachineView::Node view_node(unsigned id) {
  std::array<char, 64> name{};
  starpu_memory_node_get_name(id, name.data(), name.size());
  MachineView::Node node{.id = static_cast<int>(id), .name = name.data(), .capacity_bytes = {}};
  const starpu_ssize_t bytes = starpu_memory_get_total(id);
  if (bytes >= 0) node.capacity_bytes = Index{bytes};
  return node;
}

}  // namespace

MachineView view_machine() {
  MachineView view;
  for (int worker = 0; worker < static_cast<int>(starpu_worker_get_count()); ++worker) {
    std::array<char, 128> name{};
    starpu_worker_get_name(worker, name.data(), name.size());
    const unsigned node = starpu_worker_get_memory_node(static_cast<unsigned>(worker));
    view.workers.push_back({.id = worker,
                            .name = name.data(),
                            .kind = kind_of(worker),
                            .node = static_cast<int>(node)});
  }
  const unsigned nodes = starpu_memory_nodes_get_count();
  for (unsigned from = 0; from < nodes; ++from) {
    view.nodes.push_back(view_node(from));
    for (unsigned to = 0; to < nodes; ++to)
      if (from != to)
        view.links.push_back({.from = static_cast<int>(from),
                              .to = static_cast<int>(to),
                              .bytes_per_s = starpu_transfer_bandwidth(from, to) * kMega});
  }
  return view;
}

bool is_allocated(RawHandle handle, int node) {
  int allocated = 0;
  starpu_data_query_status(handle, node, &allocated, nullptr, nullptr);
  return allocated != 0;
}

}  // namespace dos::rt
