// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/types.hpp"
#include "rt/handle.hpp"
#include "rt/mode.hpp"

namespace dos::rt {

inline constexpr int kHostNode = 0;

/// A worker of the running session that has a memory of its own: a CUDA or an OpenCL device.
struct Device {
  std::string name;
  int worker = -1;
  int node = -1;                      ///< of memory
  bool is_cuda = false;               ///< every task may run there; on OpenCL devices updates only
  std::optional<Index> memory_bytes;  ///< that StarPU may use; nothing where it knows no limit
};

/// In the order of the workers.
std::vector<Device> devices();

/// The workers of the running session that are CPUs.
std::vector<int> cpu_workers();

/// What the workers of the running session are bound to, each once: the operating system's numbers
/// of hardware threads, the first of their core (platform::Core::number) with one worker a core.
std::vector<Index> worker_cores();

/// Bytes that buffers have on a memory node, or had when their contents were last released
/// (Handle::release), by category. Scratch buffers are left out: StarPU does not say where they
/// are. Call while no task runs.
MemoryBytes allocated_on(const Session& session, int node);

/// Bytes of a node that StarPU has taken, its own reserves and scratch buffers included, and what
/// it keeps of released buffers for others.
Index used_on(int node);

/// Bytes of a node that buffers with released contents have given up and nobody has taken since, at
/// most: StarPU keeps the blocks for buffers of the same size and counts them as taken until memory
/// is short.
Index released_on(int node);

/// Starts to copy the contents of the buffer to a node, unless they are there, and returns.
void prefetch(const Handle& handle, int node);

/// Blocks until the contents of the buffer are on the node. With kReadWrite every other copy then
/// counts as outdated.
void fetch(const Handle& handle, int node, Mode mode);

}  // namespace dos::rt
