// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/types.hpp"
#include "rt/handle.hpp"

namespace dos::rt {

/// The running session's machine as StarPU sees it.
struct MachineView {
  struct Worker {
    int id = 0;
    std::string name;
    std::string kind;  ///< cpu, opencl or cuda
    int node = 0;      ///< of memory
  };
  struct Node {
    int id = 0;
    std::string name;
    std::optional<Index> capacity_bytes;  ///< that StarPU may use; nothing where it knows no limit
  };
  /// One direction; StarPU's own measurement of its bus.
  struct Link {
    int from = 0;
    int to = 0;
    double bytes_per_s = 0;
  };
  std::vector<Worker> workers;
  std::vector<Node> nodes;  ///< node 0 is host memory
  std::vector<Link> links;
};

MachineView view_machine();

/// Whether StarPU has memory for the buffer on the node, whatever is in it. A hint: StarPU may be
/// changing it at the moment. Pre: the buffer is registered.
bool is_allocated(RawHandle handle, int node);

}  // namespace dos::rt
