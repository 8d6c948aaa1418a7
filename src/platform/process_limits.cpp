// SPDX-License-Identifier: Apache-2.0
#include "platform/process_limits.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "base/error.hpp"

namespace dos::platform {
namespace {

namespace fs = std::filesystem;

/// Programs exist that go through all numbers up to the limit.
constexpr rlim_t kMostFiles = 65'536;

std::string text_of(rlim_t limit) {
  return limit == RLIM_INFINITY ? "unlimited" : fmt::format("{}", limit);
}

void raise_file_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = std::max(limit.rlim_cur, std::min(limit.rlim_max, kMostFiles));
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

/// How many files can be opened at once, up to `wanted`.
Index openable_files(Index wanted) {
  std::vector<int> opened;
  while (std::ssize(opened) < wanted) {
    const int descriptor = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) break;
    opened.push_back(descriptor);
  }
  for (const int descriptor : opened) ::close(descriptor);
  return std::ssize(opened);
}

/// How many threads can be started at once, up to `wanted`.
Index startable_threads(Index wanted) {
  std::atomic<bool> may_end = false;
  std::vector<std::thread> started;
  try {
    while (std::ssize(started) < wanted) started.emplace_back([&] { may_end.wait(false); });
  } catch (const std::system_error&) {
  }
  may_end = true;
  may_end.notify_all();
  for (std::thread& each : started) each.join();
  return std::ssize(started);
}

/// ", pids.max of the control group /x is 20", of the innermost group of this process that has a
/// limit, if one does.
std::string group_limit() {
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const bool is_second = line.starts_with("0::");
    const std::size_t first = line.find(":pids:");
    if (!is_second && first == std::string::npos) continue;
    const fs::path root = is_second ? "/sys/fs/cgroup" : "/sys/fs/cgroup/pids";
    for (fs::path group = line.substr(line.find('/')); group.has_relative_path();
         group = group.parent_path()) {
      std::ifstream file(root / group.relative_path() / "pids.max");
      if (Index limit = 0; file >> limit)
        return fmt::format(", pids.max of the control group {} is {}", group.string(), limit);
    }
  }
  return "";
}

}  // namespace

void expect_threads_and_files(Index threads, Index files) {
  raise_file_limit();
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const Index openable = openable_files(files);
  expect(openable == files,
         "{} more files can be opened, a run needs {}: raise the limit (ulimit -n is {})", openable,
         files, text_of(limit.rlim_cur));
  ::getrlimit(RLIMIT_NPROC, &limit);
  rlimit space{};
  ::getrlimit(RLIMIT_AS, &space);
  const Index startable = startable_threads(threads);
  expect(
      startable == threads,
      "{} more threads can be started, a run needs {}: raise the limits (ulimit -u is {}, ulimit "
      "-v {}{}), end other programs, or take fewer workers (train.workers, STARPU_NCPU)",
      startable, threads, text_of(limit.rlim_cur), text_of(space.rlim_cur), group_limit());
}

}  // namespace dos::platform
