// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/scoped_environment.hpp"
#include "base/types.hpp"
#include "rt/cuda.hpp"
#include "rt/idle_naps.hpp"
#include "rt/memory_ledger.hpp"
#include "rt/opencl.hpp"
#include "rt/starpu_home.hpp"

struct starpu_sched_policy;

namespace dos::rt {

class Handle;

/// Schedulers beside StarPU's own, by the name that they carry.
using Schedulers = std::vector<starpu_sched_policy*>;

struct SessionConfig {
  /// Policy name; "" takes the one that STARPU_SCHED names in the environment, or the first of
  /// `schedulers`, or kDefaultScheduler.
  std::string scheduler;
  Index cpu_workers = -1;  ///< CPU workers; -1 takes one a core
  /// OpenCL devices to use, each with a worker that takes a core; -1 takes all. StarPU counts CPUs
  /// as OpenCL devices only with STARPU_OPENCL_ON_CPUS=1 in the environment.
  Index opencl_workers = 0;
  Index cuda_workers = 0;             ///< CUDA devices to use, as above
  std::vector<Index> cuda_devices{};  ///< which ones, in order; empty: the first ones
  Index reserved_cores = 0;           ///< of those this process is bound to, left without worker
  /// Bytes of each device with a memory of its own that may be used, rounded down to MiB; 0: what
  /// StarPU finds, or what STARPU_LIMIT_CUDA_MEM and STARPU_LIMIT_OPENCL_MEM say.
  Index device_memory = 0;
  Index cuda_workspace = kCudaWorkspaceBytes;  ///< CudaWorkspaces of each CUDA device, bytes
  /// StarPU measures its tasks and keeps the history models of their codelets, in place of what it
  /// had of them, when the session ends.
  bool calibrates = false;
  /// A folder for what StarPU measures, if it cannot keep that where its environment says; see
  /// StarpuHome.
  std::filesystem::path measurements{};
  Index other_threads = 0;  ///< of the program, beside StarPU's
  Index files = 4;          ///< that the program has open at once
  Schedulers schedulers{};  ///< known beside StarPU's own; must outlive the session
};

/// Greedy, work stealing, honours priorities and data locality: the best of StarPU's own policies
/// on CPU-only machines.
inline constexpr const char* kDefaultScheduler = "lws";

/// One initialised StarPU, on the cores that the process is bound to, unless the environment has
/// STARPU_WORKERS_GETBIND=0; shut down by the destructor after all tasks. Everything that holds
/// handles must be destroyed before. Only one may exist at a time.
class Session {
 public:
  /// Throws Error when StarPU is of another version than that of the build (starpu_version.hpp),
  /// when the scheduler is unknown (the message lists the known ones), when
  /// STARPU_SCHED names another than `config`, when StarPU finds no worker, or cannot read what it
  /// has measured of the links, when a variable of its environment has a value that it cannot take
  /// (starpu_variables.hpp), when there is no place for what it measures, or when the process may
  /// not have so many threads and files (`ulimit`).
  explicit Session(const SessionConfig& config);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session();

  /// Blocks until every submitted task is done.
  void wait_all() const;

  /// Tasks that were submitted and have not ended.
  [[nodiscard]] Index pending_tasks() const;

  /// Workers of every kind.
  [[nodiscard]] Index workers() const;
  [[nodiscard]] Index cpu_workers() const;
  [[nodiscard]] Index opencl_workers() const;
  [[nodiscard]] Index cuda_workers() const;
  /// Whether a worker has a memory of its own.
  /// How many workers run lanes of a micro-batch side by side: CUDA devices where there are any,
  /// else CPU workers.
  [[nodiscard]] Index lane_workers() const {
    return cuda_workers() > 0 ? cuda_workers() : cpu_workers();
  }
  [[nodiscard]] bool has_devices() const { return opencl_workers() + cuda_workers() > 0; }
  /// The codelet's OpenCL program; null when it has none or the session has no OpenCL worker.
  /// Built at the first call, for all devices; Throws Error when that fails.
  starpu_opencl_program* opencl_program(const Codelet& codelet);
  [[nodiscard]] const std::string& scheduler() const { return scheduler_; }
  [[nodiscard]] MemoryLedger& memory() { return memory_; }

  /// The handles that live, which enter and leave by their constructor and destructor.
  [[nodiscard]] const std::unordered_set<const Handle*>& handles() const { return handles_; }
  void add(const Handle& handle) { handles_.insert(&handle); }
  void remove(const Handle& handle) { handles_.erase(&handle); }

  /// "1.3.10".
  static std::string version();
  static std::vector<std::string> known_schedulers(const Schedulers& more = {});
  /// Throws Error unless known_schedulers() has the name; the message lists them.
  static void expect_scheduler(const std::string& name, const Schedulers& more = {});

 private:
  ScopedEnvironment environment_;  ///< while StarPU runs
  std::unique_ptr<StarpuHome> home_;
  std::string scheduler_;
  MemoryLedger memory_;
  std::unordered_set<const Handle*> handles_;
  std::unique_ptr<OpenclPrograms> opencl_;
  std::unique_ptr<CudaWorkspaces> cuda_;
  std::unique_ptr<IdleNaps> naps_;
};

}  // namespace dos::rt
