// SPDX-License-Identifier: Apache-2.0
#include "rt/starpu_variables.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <starpu_config.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <string_view>
#include <system_error>

#include "base/error.hpp"
#include "base/json.hpp"

namespace dos::rt {
namespace {

constexpr std::int64_t kLeastDisk = 16;  // MiB; StarPU ends the program with less
constexpr std::int64_t kAny = std::numeric_limits<std::int32_t>::max();  // StarPU counts in int
constexpr std::int64_t kPercent = 100;
constexpr std::int64_t kBackoff = 100'000;  // turns of a loop: more would miss tasks
constexpr std::int64_t kDeviceNumbers = 128;
constexpr std::int64_t kThreads = -1;              // stands for the number of hardware threads
constexpr std::int64_t kMicroseconds = 1'000'000;  // StarPU reads those of the watchdog as 64 bits
constexpr std::int64_t kMebi = 1 << 20;
#ifdef STARPU_SIMGRID
constexpr std::int64_t kSimulates = 1;
#else
constexpr std::int64_t kSimulates = 0;
#endif

constexpr auto kCores = VariableKind::kCores;
constexpr auto kDevices = VariableKind::kDevices;
constexpr auto kFile = VariableKind::kFile;
constexpr auto kFolder = VariableKind::kFolder;
constexpr auto kName = VariableKind::kName;
constexpr auto kNames = VariableKind::kNames;
constexpr auto kNumber = VariableKind::kNumber;
constexpr auto kReal = VariableKind::kReal;

constexpr std::array kVariables{
    // Workers.
    StarpuVariable{"STARPU_NCPU", kNumber, 0, kAny},
    StarpuVariable{"STARPU_NCPUS", kNumber, 0, kAny},
    StarpuVariable{"STARPU_RESERVE_NCPU", kNumber, 0, kThreads},
    StarpuVariable{"STARPU_NCUDA", kNumber, 0, kAny},
    StarpuVariable{"STARPU_NHIP", kNumber, 0, kAny},
    StarpuVariable{"STARPU_NOPENCL", kNumber, 0, kAny},
    StarpuVariable{"STARPU_NMAX_FPGA", kNumber, 0, kAny},
    StarpuVariable{"STARPU_NMIC", kNumber, 0, kAny},
    StarpuVariable{"STARPU_NMICTHREADS", kNumber, 0, kAny},
    StarpuVariable{"STARPU_NMPIMSTHREADS", kNumber, 0, kAny},
    StarpuVariable{"STARPU_NTCPIPMSTHREADS", kNumber, 0, kAny},
    StarpuVariable{"STARPU_NMPI_MS", kNumber, 0, kAny},
    StarpuVariable{"STARPU_NTCPIP_MS", kNumber, 0, kAny},
    StarpuVariable{"STARPU_NTHREADS_PER_CORE", kNumber, 1, kThreads},
    StarpuVariable{"STARPU_NWORKER_PER_CUDA", kNumber, 1, 16},
    StarpuVariable{"STARPU_NWORKER_PER_HIP", kNumber, 1, 16},
    StarpuVariable{"STARPU_OPENCL_ON_CPUS"},
    StarpuVariable{"STARPU_OPENCL_ONLY_ON_CPUS"},
    StarpuVariable{"STARPU_CUDA_PIPELINE", kNumber, 0, 4},
    StarpuVariable{"STARPU_HIP_PIPELINE", kNumber, 0, 4},
    StarpuVariable{"STARPU_OPENCL_PIPELINE", kNumber, 0, 4},
    StarpuVariable{"STARPU_CUDA_THREAD_PER_DEV"},
    StarpuVariable{"STARPU_CUDA_THREAD_PER_WORKER"},
    StarpuVariable{"STARPU_HIP_THREAD_PER_DEV"},
    StarpuVariable{"STARPU_HIP_THREAD_PER_WORKER"},
    StarpuVariable{"STARPU_SINGLE_COMBINED_WORKER"},
    StarpuVariable{"STARPU_MIN_WORKERSIZE", kNumber, 1, kAny},
    StarpuVariable{"STARPU_MAX_WORKERSIZE", kNumber, 1, kAny},
    StarpuVariable{"STARPU_SYNTHESIZE_ARITY_COMBINED_WORKER", kNumber, 1, kAny},
    StarpuVariable{"STARPU_DISABLE_KERNELS", kNumber, 0, 0, "a run without kernels trains nothing"},
    // Where they run.
    StarpuVariable{"STARPU_WORKERS_CPUID", kCores},
    StarpuVariable{"STARPU_WORKERS_COREID", kCores},
    StarpuVariable{"STARPU_WORKERS_CUDAID", kDevices},
    StarpuVariable{"STARPU_WORKERS_OPENCLID", kDevices},
    StarpuVariable{"STARPU_WORKERS_HIPID", kDevices},
    StarpuVariable{"STARPU_WORKERS_MAX_FPGAID", kDevices},
    StarpuVariable{"STARPU_WORKERS_MICID", kDevices},
    StarpuVariable{"STARPU_WORKERS_NOBIND"},
    StarpuVariable{"STARPU_WORKERS_GETBIND"},
    StarpuVariable{"STARPU_MAIN_THREAD_BIND"},
    StarpuVariable{"STARPU_MAIN_THREAD_CPUID", kNumber, 0, kThreads},
    StarpuVariable{"STARPU_MAIN_THREAD_COREID", kNumber, 0, kThreads},
    StarpuVariable{"STARPU_MPI_THREAD_CPUID", kNumber, 0, kThreads},
    StarpuVariable{"STARPU_MPI_THREAD_COREID", kNumber, 0, kThreads},
    StarpuVariable{"STARPU_USE_NUMA"},
    StarpuVariable{"STARPU_PCI_FLAT"},
    // Memory. StarPU multiplies megabytes.
    StarpuVariable{"STARPU_LIMIT_CPU_MEM", kNumber, 0, kAny},
    StarpuVariable{"STARPU_LIMIT_CPU_NUMA_MEM", kNumber, 0, kAny},
    StarpuVariable{"STARPU_LIMIT_CUDA_MEM", kNumber, 0, kAny},
    StarpuVariable{"STARPU_LIMIT_HIP_MEM", kNumber, 0, kAny},
    StarpuVariable{"STARPU_LIMIT_OPENCL_MEM", kNumber, 0, kAny},
    StarpuVariable{"STARPU_LIMIT_MAX_FPGA_MEM", kNumber, 0, kAny},
    StarpuVariable{"STARPU_LIMIT_CPU_NUMA_#_MEM", kNumber, 0, kAny},
    StarpuVariable{"STARPU_LIMIT_CUDA_#_MEM", kNumber, 0, kAny},
    StarpuVariable{"STARPU_LIMIT_HIP_#_MEM", kNumber, 0, kAny},
    StarpuVariable{"STARPU_LIMIT_OPENCL_#_MEM", kNumber, 0, kAny},
    StarpuVariable{"STARPU_LIMIT_BANDWIDTH", kNumber, 0, kAny},
    StarpuVariable{"STARPU_MINIMUM_AVAILABLE_MEM", kNumber, 0, kPercent},
    StarpuVariable{"STARPU_TARGET_AVAILABLE_MEM", kNumber, 0, kPercent},
    StarpuVariable{"STARPU_MINIMUM_CLEAN_BUFFERS", kNumber, 0, kPercent},
    StarpuVariable{"STARPU_TARGET_CLEAN_BUFFERS", kNumber, 0, kPercent},
    StarpuVariable{"STARPU_DISABLE_PINNING"},
    StarpuVariable{"STARPU_DISABLE_ASYNCHRONOUS_COPY"},
    StarpuVariable{"STARPU_DISABLE_ASYNCHRONOUS_CUDA_COPY"},
    StarpuVariable{"STARPU_DISABLE_ASYNCHRONOUS_OPENCL_COPY"},
    StarpuVariable{"STARPU_DISABLE_ASYNCHRONOUS_HIP_COPY"},
    StarpuVariable{"STARPU_DISABLE_ASYNCHRONOUS_MAX_FPGA_COPY"},
    StarpuVariable{"STARPU_DISABLE_ASYNCHRONOUS_MIC_COPY"},
    StarpuVariable{"STARPU_DISABLE_ASYNCHRONOUS_MPI_MS_COPY"},
    StarpuVariable{"STARPU_DISABLE_ASYNCHRONOUS_TCPIP_MS_COPY"},
    StarpuVariable{"STARPU_CUDA_ONLY_FAST_ALLOC_OTHER_MEMNODES"},
    StarpuVariable{"STARPU_ENABLE_CUDA_GPU_GPU_DIRECT"},
    StarpuVariable{"STARPU_ENABLE_MAP"},
    StarpuVariable{"STARPU_SUBALLOCATOR"},
    StarpuVariable{"STARPU_DISK_SWAP", kFolder},
    StarpuVariable{"STARPU_DISK_SWAP_SIZE", kNumber, kLeastDisk, kAny},
    StarpuVariable{"STARPU_MEMORY_STATS"},
    StarpuVariable{"STARPU_MAX_MEMORY_USE"},
    // Scheduling.
    StarpuVariable{"STARPU_MIN_PRIO", kNumber, 0, kAny},
    StarpuVariable{"STARPU_MAX_PRIO", kNumber, 0, kAny},
    StarpuVariable{"STARPU_LIMIT_MIN_SUBMITTED_TASKS", kNumber, 1, kAny},
    StarpuVariable{"STARPU_LIMIT_MAX_SUBMITTED_TASKS", kNumber, 1, kAny},
    StarpuVariable{"STARPU_PREFETCH"},
    StarpuVariable{"STARPU_BACKOFF_MIN", kNumber, 1, kBackoff},
    StarpuVariable{"STARPU_BACKOFF_MAX", kNumber, 1, kBackoff},
    StarpuVariable{"STARPU_GLOBAL_ARBITER"},
    StarpuVariable{"STARPU_DIDUSE_BARRIER"},
    StarpuVariable{"STARPU_WORKER_TREE"},
    StarpuVariable{"STARPU_DATA_LOCALITY_ENFORCE"},
    StarpuVariable{"STARPU_NTASKS_THRESHOLD", kNumber, 0, kAny},
    StarpuVariable{"STARPU_EXP_LEN_THRESHOLD", kReal},
    StarpuVariable{"STARPU_SCHED_ALPHA", kReal},
    StarpuVariable{"STARPU_SCHED_BETA", kReal},
    StarpuVariable{"STARPU_SCHED_GAMMA", kReal},
    StarpuVariable{"STARPU_IDLE_POWER", kReal},
    StarpuVariable{"STARPU_RAND_SEED", kNumber, 0, kAny},
    StarpuVariable{"STARPU_EXPECTED_TRANSFER_TIME_WRITEBACK"},
    StarpuVariable{"STARPU_SCHED_GRAPH_TEST_DESCENDANTS"},
    StarpuVariable{"STARPU_SCHED_READY"},
    StarpuVariable{"STARPU_SCHED_SORTED_ABOVE"},
    StarpuVariable{"STARPU_SCHED_SORTED_BELOW"},
    // Measuring.
    StarpuVariable{"STARPU_CALIBRATE", kNumber, 0, 2},
    StarpuVariable{"STARPU_CALIBRATE_MINIMUM", kNumber, 1, kAny},
    StarpuVariable{"STARPU_BUS_CALIBRATE"},
    StarpuVariable{"STARPU_HISTORY_MAX_ERROR", kNumber, 1, kAny},
    StarpuVariable{"STARPU_PERF_MODEL_HOMOGENEOUS_CPU"},
    StarpuVariable{"STARPU_PERF_MODEL_HOMOGENEOUS_CUDA"},
    StarpuVariable{"STARPU_PERF_MODEL_HOMOGENEOUS_OPENCL"},
    StarpuVariable{"STARPU_PERF_MODEL_HOMOGENEOUS_HIP"},
    StarpuVariable{"STARPU_PERF_MODEL_HOMOGENEOUS_MAX_FPGA"},
    StarpuVariable{"STARPU_PERF_MODEL_HOMOGENEOUS_MIC"},
    StarpuVariable{"STARPU_PERF_MODEL_HOMOGENEOUS_MPI_MS"},
    StarpuVariable{"STARPU_PERF_MODEL_HOMOGENEOUS_TCPIP_MS"},
    StarpuVariable{"STARPU_HOSTNAME", kName},
    StarpuVariable{"STARPU_MPI_HOSTNAMES", kNames},
    // What it says, and when.
    StarpuVariable{"STARPU_SILENT"},
    StarpuVariable{"STARPU_STATS"},
    StarpuVariable{"STARPU_BUS_STATS"},
    StarpuVariable{"STARPU_WORKER_STATS"},
    StarpuVariable{"STARPU_BUS_STATS_FILE", kFile},
    StarpuVariable{"STARPU_WORKER_STATS_FILE", kFile},
    StarpuVariable{"STARPU_IDLE_FILE", kFile},
    StarpuVariable{"STARPU_LOGFILENAME", kFile},
    StarpuVariable{"STARPU_WINDOW_TIME_SIZE", kReal},
    StarpuVariable{"STARPU_PROFILING"},
    StarpuVariable{"STARPU_CODELET_PROFILING"},
    StarpuVariable{"STARPU_ENERGY_PROFILING"},
    StarpuVariable{"STARPU_DISPLAY_BINDINGS"},
    StarpuVariable{"STARPU_TASK_PROGRESS"},
    StarpuVariable{"STARPU_FXT_TRACE"},
    StarpuVariable{"STARPU_GENERATE_TRACE"},
    StarpuVariable{"STARPU_TRACE_BUFFER_SIZE", kNumber, 1, 1'000'000},
    StarpuVariable{"STARPU_CATCH_SIGNALS"},
    StarpuVariable{"STARPU_WATCHDOG_CRASH"},
    StarpuVariable{"STARPU_WATCHDOG_DELAY", kNumber, 0, kAny},
    StarpuVariable{"STARPU_WATCHDOG_TIMEOUT", kNumber, kMicroseconds, kAny* kMicroseconds},
    StarpuVariable{"STARPU_TASK_BREAK_ON_EXEC", kNumber, 0, kAny},
    StarpuVariable{"STARPU_TASK_BREAK_ON_POP", kNumber, 0, kAny},
    StarpuVariable{"STARPU_TASK_BREAK_ON_PUSH", kNumber, 0, kAny},
    StarpuVariable{"STARPU_TASK_BREAK_ON_SCHED", kNumber, 0, kAny},
    // Simulation.
    StarpuVariable{"STARPU_SIMGRID", kNumber, 0, kSimulates, "this StarPU has no SimGrid"},
    StarpuVariable{"STARPU_SIMGRID_CUDA_MALLOC_COST"},
    StarpuVariable{"STARPU_SIMGRID_CUDA_QUEUE_COST"},
    StarpuVariable{"STARPU_SIMGRID_FETCHING_INPUT_COST"},
    StarpuVariable{"STARPU_SIMGRID_SCHED_COST"},
    StarpuVariable{"STARPU_SIMGRID_TASK_PUSH_COST"},
    StarpuVariable{"STARPU_SIMGRID_TASK_SUBMIT_COST"},
    StarpuVariable{"STARPU_SIMGRID_TRANSFER_COST"},
    StarpuVariable{"STARPU_MALLOC_SIMULATION_FOLD", kNumber, 1, kAny / kMebi},
};

/// Takes a whole number off the front; -1 when there is none below `end`.
std::int64_t take_number(std::string_view& text, std::int64_t end) {
  std::int64_t value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || value < 0 || value >= end) return -1;
  text.remove_prefix(static_cast<std::size_t>(rest - text.data()));
  return value;
}

bool is_number(std::string_view text, std::int64_t least, std::int64_t most) {
  return take_number(text, most + 1) >= least && text.empty();
}

bool is_real(const std::string& text) {
  char* rest = nullptr;
  const double value = std::strtod(text.c_str(), &rest);
  const bool is_plain = text.find_first_not_of("0123456789.eE+-") == std::string::npos;
  return !text.empty() && is_plain && *rest == '\0' && std::isfinite(value) && value >= 0 &&
         value <= std::numeric_limits<float>::max();
}

/// Numbers below `end`, one after another or as ranges "2-5" and "2-".
bool is_list(std::string_view text, std::int64_t end, std::string_view separators,
             bool has_ranges) {
  while (true) {
    const std::int64_t first = take_number(text, end);
    if (first < 0) return false;
    if (has_ranges && text.starts_with('-')) {
      text.remove_prefix(1);
      const bool is_open = text.empty() || separators.find(text.front()) != std::string_view::npos;
      if (!is_open && take_number(text, end) < first) return false;
    }
    if (text.empty()) return true;
    if (separators.find(text.front()) == std::string_view::npos) return false;
    text.remove_prefix(1);
  }
}

bool is_file_name(std::string_view text) {
  constexpr std::size_t kLongest = 64;
  return !text.empty() && text.size() <= kLongest && text.front() != '.' &&
         std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                  c == '-' || c == '_' || c == '.';
         });
}

/// StarPU opens such files when everything is done, and aborts where it cannot.
bool can_be_written(const std::string& value) {
  namespace fs = std::filesystem;
  const fs::path path = value;
  std::error_code ignored;
  if (fs::exists(path, ignored))
    return !fs::is_directory(path, ignored) && ::access(path.c_str(), W_OK) == 0;
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  constexpr std::size_t kLongestName = 255;
  const std::size_t name = path.filename().native().size();
  return name > 0 && name <= kLongestName && ::access(folder.c_str(), W_OK | X_OK) == 0;
}

/// StarPU makes the folder, and those above it, and aborts where it cannot.
bool can_be_a_folder(const std::string& value) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  fs::path path = value;
  while (!path.empty() && !fs::exists(path, ignored)) path = path.parent_path();
  if (path.empty()) path = ".";
  return !value.empty() && fs::is_directory(path, ignored) &&
         ::access(path.c_str(), W_OK | X_OK) == 0;
}

bool are_file_names(std::string_view text) {
  while (true) {
    const std::size_t end = text.find(' ');
    if (!is_file_name(text.substr(0, end))) return false;
    if (end == std::string_view::npos) return true;
    text.remove_prefix(end + 1);
  }
}

/// Hardware threads that StarPU finds: it keeps to those of this process unless it is told not to.
std::int64_t hardware_threads() {
  const char* keeps = std::getenv("STARPU_WORKERS_GETBIND");
  cpu_set_t own;
  CPU_ZERO(&own);
  const bool is_free = keeps != nullptr && std::string_view(keeps) == "0";
  if (!is_free && ::sched_getaffinity(0, sizeof own, &own) == 0) return CPU_COUNT(&own);
  return ::sysconf(_SC_NPROCESSORS_ONLN);
}

}  // namespace

std::span<const StarpuVariable> starpu_variables() {
  return kVariables;
}

std::string obstacle_to_value(const StarpuVariable& variable, const std::string& value,
                              std::int64_t threads) {
  switch (variable.kind) {
    case VariableKind::kNumber: {
      const std::int64_t last = std::max<std::int64_t>(variable.least, threads - 1);
      const std::int64_t most = variable.most == kThreads ? last : variable.most;
      if (is_number(value, variable.least, most)) return "";
      if (variable.least == most && *variable.because != '\0')
        return fmt::format("{} ({})", most, variable.because);
      if (variable.least == most) return fmt::format("{}", most);
      return fmt::format("a whole number between {} and {}", variable.least, most);
    }
    case VariableKind::kReal:
      return is_real(value) ? "" : "a finite number of at least 0";
    case VariableKind::kCores:
      if (is_list(value, threads, " ,", /*has_ranges=*/true)) return "";
      return fmt::format(
          "numbers between 0 and {} with a space or comma between them, and ranges as 0-{}",
          threads - 1, threads - 1);
    case VariableKind::kDevices:
      if (is_list(value, kDeviceNumbers, " ", /*has_ranges=*/false)) return "";
      return fmt::format("numbers between 0 and {} with a space between them", kDeviceNumbers - 1);
    case VariableKind::kFile:
      return can_be_written(value) ? "" : "the path of a file that can be written";
    case VariableKind::kFolder:
      return can_be_a_folder(value) ? "" : "a folder that can be written, or made";
    case VariableKind::kName:
      return is_file_name(value) ? "" : "at most 64 letters, digits, '-', '_' and '.', as in hosts";
    case VariableKind::kNames:
      return are_file_names(value) ? "" : "names of hosts with a space between them";
  }
  return "";
}

bool is_name_of(const StarpuVariable& variable, std::string_view name) {
  const std::string_view pattern = variable.name;
  const std::size_t number = pattern.find('#');
  if (number == std::string_view::npos) return name == pattern;
  if (!name.starts_with(pattern.substr(0, number))) return false;
  name.remove_prefix(number);
  return take_number(name, kAny) >= 0 && name == pattern.substr(number + 1);
}

void expect_good_starpu_variables() {
  const std::int64_t threads = hardware_threads();
  for (const StarpuVariable& variable : kVariables)
    for (char* const* entry = environ; *entry != nullptr; ++entry) {
      const std::string_view text = *entry;
      const std::size_t sign = text.find('=');
      if (sign == std::string_view::npos || !is_name_of(variable, text.substr(0, sign))) continue;
      const std::string value(text.substr(sign + 1));
      const std::string wanted = obstacle_to_value(variable, value, threads);
      expect(wanted.empty(), "the environment has {}={}: it must be {}; change or unset it",
             text.substr(0, sign), excerpt(value), wanted);
    }
}

}  // namespace dos::rt
