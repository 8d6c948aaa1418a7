// SPDX-License-Identifier: Apache-2.0
#include "platform/memory_limits.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <limits>
#include <optional>

namespace dos::platform {
namespace {

namespace fs = std::filesystem;

constexpr Index kUnlimited = std::numeric_limits<Index>::max();

/// The first number of a file, if it exists and starts with one ("max" does not).
std::optional<Index> number_in(const fs::path& path) {
  std::ifstream file(path);
  Index value = 0;
  if (file >> value) return value;
  return std::nullopt;
}

/// The number behind `key` in a file of lines "key number", nothing when there is none.
std::optional<Index> value_in(const fs::path& path, const std::string& key) {
  std::ifstream file(path);
  std::string rest;
  for (std::string word; file >> word; std::getline(file, rest)) {
    Index value = 0;
    if (word == key && file >> value) return value;
  }
  return std::nullopt;
}

/// Where one version of control groups keeps a group's limits of memory and its use.
struct ControlGroupFiles {
  const char* line;  ///< how the group's line in /proc/self/cgroup starts, after its number
  const char* root;  ///< below /sys/fs/cgroup
  std::array<const char*, 2> limits;
  const char* used;
  const char* reclaimable;  ///< key in memory.stat: cached file pages that count as used
};

// Above memory.high a group is slowed down until it stands still.
constexpr std::array kControlGroups{
    ControlGroupFiles{"::", "", {"memory.max", "memory.high"}, "memory.current", "inactive_file"},
    ControlGroupFiles{":memory:",
                      "memory",
                      {"memory.limit_in_bytes", "memory.memsw.limit_in_bytes"},
                      "memory.usage_in_bytes",
                      "total_inactive_file"}};

/// What one control group leaves of its limits.
MemoryLeft left_in(const fs::path& group, const ControlGroupFiles& files) {
  MemoryLeft left{.bytes = kUnlimited, .limited_by = group.string()};
  const auto used = number_in(group / files.used);
  if (!used) return left;
  const Index cached = value_in(group / "memory.stat", files.reclaimable).value_or(0);
  for (const char* name : files.limits)
    if (const auto limit = number_in(group / name))
      left.bytes = std::min(left.bytes, std::max<Index>(0, *limit - *used + cached));
  return left;
}

MemoryLeft least(const MemoryLeft& a, const MemoryLeft& b) {
  return b.bytes < a.bytes ? b : a;
}

MemoryLeft left_by_kernel() {
  const auto kib = value_in("/proc/meminfo", "MemAvailable:");
  return {.bytes = kib ? *kib * 1024 : kUnlimited, .limited_by = ""};
}

MemoryLeft left_by_limit(int resource, const char* name, const char* used_key, Index mappings) {
  MemoryLeft left{.bytes = kUnlimited, .limited_by = name};
  rlimit limit{};
  const auto used = value_in("/proc/self/status", used_key);
  if (::getrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0 || !used) return left;
  if (limit.rlim_cur >= static_cast<rlim_t>(kUnlimited)) return left;
  left.bytes = std::max<Index>(0, static_cast<Index>(limit.rlim_cur) - *used * 1024 - mappings);
  return left;
}

}  // namespace

MemoryLeft left_by_control_groups(const fs::path& groups, const fs::path& root) {
  MemoryLeft left{.bytes = kUnlimited, .limited_by = ""};
  std::ifstream file(groups);
  for (std::string line; std::getline(file, line);) {
    const std::string entry = line.substr(std::min(line.find(':'), line.size()));
    for (const ControlGroupFiles& files : kControlGroups) {
      if (!entry.starts_with(files.line)) continue;
      const fs::path top = (root / files.root).lexically_normal();
      // In a container the path may be that of the host: then only the top is here.
      fs::path group = top.string() + entry.substr(std::strlen(files.line));
      for (; group.string().size() >= top.string().size(); group = group.parent_path()) {
        left = least(left, left_in(group, files));
        if (group == group.parent_path()) break;
      }
    }
  }
  return left;
}

MemoryLeft memory_left(Index mappings) {
  MemoryLeft left =
      least(left_by_kernel(), left_by_control_groups("/proc/self/cgroup", "/sys/fs/cgroup"));
  left = least(left, left_by_limit(RLIMIT_AS, "ulimit -v", "VmSize:", mappings));
  return least(left, left_by_limit(RLIMIT_DATA, "ulimit -d", "VmData:", mappings));
}

Index resident_memory() {
  return value_in("/proc/self/status", "VmRSS:").value_or(0) * 1024;
}

Index least_limit(Index used, Index threads, Index stack) {
  // Measured on Debian 12: 370 MiB of PoCL and LLVM, which MPI loads through hwloc, of UCX and of
  // heaps, up to 530 with those of threads; with less, threads are not created or OpenBLAS waits
  // for ever. Each core has a thread of PoCL, of OpenBLAS and of StarPU, and another may be one's
  // own.
  constexpr Index kLoadedLater = Index{576} << 20;
  constexpr Index kThreadsPerCore = 4;
  return used + kLoadedLater + threads * kThreadsPerCore * stack;
}

}  // namespace dos::platform
