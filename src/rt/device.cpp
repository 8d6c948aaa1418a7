// SPDX-License-Identifier: Apache-2.0
#include "rt/device.hpp"

#include <starpu.h>

#include <array>
#include <set>

#include "base/error.hpp"
#include "rt/live_handles.hpp"
#include "rt/starpu_mode.hpp"

namespace dos::rt {
namespace {

Device describe(int worker) {
  std::array<char, 128> name{};
  starpu_worker_get_name(worker, name.data(), name.size());
  const unsigned node = starpu_worker_get_memory_node(static_cast<unsigned>(worker));
  const starpu_ssize_t bytes = starpu_memory_get_total(node);
  Device device{.name = name.data(),
                .worker = worker,
                .node = static_cast<int>(node),
                .is_cuda = starpu_worker_get_type(worker) == STARPU_CUDA_WORKER,
                .memory_bytes = std::nullopt};
  if (bytes >= 0) device.memory_bytes = Index{bytes};
  return device;
}

}  // namespace

std::vector<Device> devices() {
  std::vector<Device> result;
  for (int worker = 0; worker < static_cast<int>(starpu_worker_get_count()); ++worker)
    if (starpu_worker_get_type(worker) != STARPU_CPU_WORKER) result.push_back(describe(worker));
  return result;
}

std::vector<int> cpu_workers() {
  std::vector<int> result;
  for (int worker = 0; worker < static_cast<int>(starpu_worker_get_count()); ++worker)
    if (starpu_worker_get_type(worker) == STARPU_CPU_WORKER) result.push_back(worker);
  return result;
}

std::vector<Index> worker_cores() {
  std::set<Index> cores;
  for (int worker = 0; worker < static_cast<int>(starpu_worker_get_count()); ++worker)
    if (const int unit = starpu_worker_get_bindid(worker); unit >= 0)
      cores.insert(starpu_get_pu_os_index(static_cast<unsigned>(unit)));
  return {cores.begin(), cores.end()};
}

MemoryBytes allocated_on(const Session& session, int node) {
  MemoryBytes bytes;
  for (const Handle* handle : session.handles()) {
    int is_allocated = 0;
    starpu_data_query_status(handle->raw(), node, &is_allocated, nullptr, nullptr);
    if (is_allocated != 0 || handle->was_released_from(node))
      bytes[handle->category()] += handle->bytes();
  }
  return bytes;
}

Index used_on(int node) {
  const auto id = static_cast<unsigned>(node);
  return Index{starpu_memory_get_total(id)} - Index{starpu_memory_get_available(id)};
}

Index released_on(int node) {
  return LiveHandles::instance().released_on(node);
}

void prefetch(const Handle& handle, int node) {
  const int result = starpu_data_prefetch_on_node(handle.raw(), static_cast<unsigned>(node),
                                                  /*async=*/1);
  require(result == 0, "starpu_data_prefetch_on_node");
}

void fetch(const Handle& handle, int node, Mode mode) {
  const int result = starpu_data_acquire_on_node(handle.raw(), node, to_starpu(mode));
  require(result == 0, "starpu_data_acquire_on_node");
  starpu_data_release_on_node(handle.raw(), node);
}

}  // namespace dos::rt
