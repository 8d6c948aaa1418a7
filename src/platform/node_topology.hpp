// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pthread.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "platform/binding.hpp"

struct hwloc_topology;

namespace dos::platform {

/// A machine as hwloc knows it: this one, or a description of another one.
class NodeTopology {
 public:
  /// What this process may use of this machine. Throws Error when hwloc cannot read it.
  static NodeTopology of_this_machine();
  /// "numa:2 core:4 pu:2". Throws Error for what hwloc does not understand.
  static NodeTopology synthetic(const std::string& description);
  /// A file that lstopo has written. Throws Error when it is none.
  static NodeTopology from_xml(const std::filesystem::path& file);

  /// Cores, and NVIDIA GPUs on the PCI bus, in order.
  [[nodiscard]] Node node() const;

  /// The cores of node() that this process is bound to, hardware threads counting for their core;
  /// all of them when it is not bound. Only of this machine.
  [[nodiscard]] std::vector<Index> bound_cores() const;
  /// Lets all threads of this process, and those that they start, run on these cores only. Throws
  /// Error when the system refuses. Only of this machine.
  void bind_process(const std::vector<Index>& cores) const;
  /// The same for one thread of this process (std::thread::native_handle()). False when the system
  /// refuses.
  [[nodiscard]] bool bind_thread(pthread_t thread, const std::vector<Index>& cores) const;
  /// Memory that this thread, and threads that it starts later, touch first comes from these NUMA
  /// nodes, in turn when there are several, while they have some. False when the system refuses, as
  /// in some containers. Only of this machine.
  [[nodiscard]] bool prefer_memory(const std::vector<Index>& numa) const;

 private:
  struct Destroy {
    void operator()(hwloc_topology* topology) const;
  };
  using Owner = std::unique_ptr<hwloc_topology, Destroy>;
  explicit NodeTopology(Owner topology) : topology_(std::move(topology)) {}
  Owner topology_;
};

}  // namespace dos::platform
