// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "base/types.hpp"

namespace dos::platform {

/// Bytes of memory that this process can still take, and what says so: "ulimit -v", a control
/// group's folder, or "" for the machine itself.
struct MemoryLeft {
  Index bytes = 0;
  std::string limited_by;
};

/// The least of what the kernel calls available and what control groups (version 1 and 2, with
/// those around this process's) and resource limits on address space and data leave. `mappings`
/// more bytes will be mapped, but not used: they count for the resource limits. Swap is left out: a
/// run in it would not advance.
MemoryLeft memory_left(Index mappings = 0);

/// Bytes of memory that this process has now, files that it has mapped and read among them.
Index resident_memory();

/// The part of memory_left() for control groups: `groups` in the form of /proc/self/cgroup, `root`
/// in place of /sys/fs/cgroup. bytes is the largest Index where there is no limit.
MemoryLeft left_by_control_groups(const std::filesystem::path& groups,
                                  const std::filesystem::path& root);

/// What a process of this project needs under a resource limit before its first buffer, beyond the
/// `used` bytes: libraries that are loaded later, threads of the runtime.
Index least_limit(Index used, Index threads, Index stack);

}  // namespace dos::platform
