// SPDX-License-Identifier: Apache-2.0
#include "rt/session.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <starpu.h>

#include <algorithm>
#include <cstdlib>
#include <thread>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/nearest.hpp"
#include "platform/crash_signals.hpp"
#include "platform/process_limits.hpp"
#include "platform/topology.hpp"
#include "rt/bus_model.hpp"
#include "rt/cuda.hpp"
#include "rt/starpu_variables.hpp"
#include "rt/starpu_version.hpp"
#include "rt/start_lock.hpp"

namespace dos::rt {

namespace {

/// `conf` as starpu_conf_init left it: its policy name is the environment's STARPU_SCHED, or null.
std::string chosen_scheduler(const SessionConfig& config, const starpu_conf& conf) {
  const std::string environment = conf.sched_policy_name == nullptr ? "" : conf.sched_policy_name;
  if (config.scheduler.empty() && !environment.empty()) return environment;
  if (config.scheduler.empty())
    return config.schedulers.empty() ? kDefaultScheduler : config.schedulers.front()->policy_name;
  // StarPU 1.3 would silently run the environment's.
  expect(environment.empty() || environment == config.scheduler,
         "scheduler '{}' is configured, but the environment has STARPU_SCHED={}: unset one of them",
         config.scheduler, environment);
  return config.scheduler;
}

starpu_sched_policy* find_scheduler(const Schedulers& schedulers, const std::string& name) {
  for (starpu_sched_policy* policy : schedulers)
    if (name == policy->policy_name) return policy;
  return nullptr;
}

/// For a scheduler that is not StarPU's own. It would look for the name and say that there is none
/// (1.4). And it writes changed data of a GPU back until a part of its memory is unchanged, 5 to 10
/// % by default, again after each task: states that stay on a GPU would travel in every step. Ours
/// write back what must go.
void prepare_for_own_scheduler(ScopedEnvironment& environment) {
  environment.remove("STARPU_SCHED");
  environment.set_default("STARPU_MINIMUM_CLEAN_BUFFERS", "0");
  environment.set_default("STARPU_TARGET_CLEAN_BUFFERS", "0");
}

void limit_devices(ScopedEnvironment& environment, Index bytes) {
  const std::string megabytes = std::to_string(bytes >> 20);
  for (const char* name : {"STARPU_LIMIT_CUDA_MEM", "STARPU_LIMIT_OPENCL_MEM"}) {
    environment.remove(name);
    environment.set_default(name, megabytes.c_str());
  }
}

/// Without devices StarPU needs no PCI bus, but has hwloc read the registers of all that is on it
/// three times a start, 25 ms on a virtual machine with six devices, and load OpenCL's drivers.
void leave_devices_alone(const SessionConfig& config, ScopedEnvironment& environment) {
  if (config.cuda_workers != 0 || !config.cuda_devices.empty() || config.opencl_workers != 0)
    return;
  platform::leave_out_components(environment, "-pci,-linux:pci,-opencl");
}

/// Before StarPU measures the links to devices, which takes seconds. Without one it has nothing to
/// measure.
void announce_measurement(const SessionConfig& config) {
  const bool has_gpu = has_cuda() && config.cuda_workers != 0 && !cuda_bus_ids().empty();
  if (has_gpu || config.opencl_workers > 0)
    log::info("the first run here: measuring the links to the devices, which takes some seconds");
}

/// A worker each, one that starts them, and a core each in PoCL: with less they abort. StarPU
/// refuses more workers than there are cores.
Index threads_of(const SessionConfig& config) {
  constexpr Index kBesideCores = 4;
  const auto cores = static_cast<Index>(std::thread::hardware_concurrency());
  return kBesideCores + config.other_threads +
         (config.cpu_workers < 0 ? cores : std::min(config.cpu_workers, cores));
}

void choose_cuda_devices(const std::vector<Index>& devices, starpu_conf& conf) {
  if (devices.empty()) return;
  require(devices.size() <= std::size(conf.workers_cuda_gpuid), "StarPU has workers for them");
  conf.use_explicit_workers_cuda_gpuid = 1;
  for (std::size_t i = 0; i < devices.size(); ++i)
    conf.workers_cuda_gpuid[i] = static_cast<unsigned>(devices[i]);
}

}  // namespace

Session::Session(const SessionConfig& config) {
  expect_starpu_of_the_build();
  expect_good_starpu_variables();
  platform::expect_threads_and_files(threads_of(config), config.files);
  starpu_conf conf;
  starpu_conf_init(&conf);
  scheduler_ = chosen_scheduler(config, conf);
  expect_scheduler(scheduler_, config.schedulers);
  conf.sched_policy = find_scheduler(config.schedulers, scheduler_);
  if (conf.sched_policy != nullptr) prepare_for_own_scheduler(environment_);
  if (config.device_memory > 0) limit_devices(environment_, config.device_memory);
  conf.sched_policy_name = conf.sched_policy == nullptr ? scheduler_.c_str() : nullptr;
  if (config.cpu_workers >= 0) conf.ncpus = static_cast<int>(config.cpu_workers);
  conf.nopencl = static_cast<int>(config.opencl_workers);
  conf.ncuda = static_cast<int>(config.cuda_workers);
  choose_cuda_devices(config.cuda_devices, conf);
  if (config.reserved_cores > 0) conf.reserve_ncpus = static_cast<int>(config.reserved_cores);
  // Its remarks on calibration would stand between our lines. Errors are said all the same.
  environment_.set_default("STARPU_SILENT", "1");
  // StarPU 1.3 would take cores that a launcher has given to another process.
  environment_.set_default("STARPU_WORKERS_GETBIND", "1");
  constexpr int kReplaceHistories = 2;
  if (config.calibrates) conf.calibrate = kReplaceHistories;
  // starpu_conf_init has read the environment; what is set since then must not be read over.
  conf.precedence_over_environment_variables = 1;
  // Signals belong to the trainer, which stops cleanly at the end of a step.
  conf.catch_signals = 0;
  home_ = std::make_unique<StarpuHome>(config.measurements, environment_);
  const int result = [&] {
    const StartLock one_after_the_other(StartLock::default_file());
    ScopedEnvironment while_it_starts;
    leave_devices_alone(config, while_it_starts);
    // Not before: another process may be writing them.
    if (mend_bus(conf.bus_calibrate > 0)) announce_measurement(config);
    return starpu_init(&conf);
  }();
  platform::leave_crashes_to_the_system();
  expect(result == 0,
         "StarPU found no worker it may use (error {}): check STARPU_NCPU and the job's cores",
         result);
  starpu_profiling_status_set(STARPU_PROFILING_ENABLE);
  opencl_ = std::make_unique<OpenclPrograms>();
  try {
    // To pin memory opens this thread's device, 0 by default: that may be another rank's. StarPU's
    // simulator has CUDA workers without CUDA.
    if (has_cuda() && cuda_workers() > 0)
      use_cuda_device(cuda_device_of(starpu_worker_get_by_type(STARPU_CUDA_WORKER, 0)));
    cuda_ = std::make_unique<CudaWorkspaces>(config.cuda_workspace);
    naps_ = std::make_unique<IdleNaps>();
  } catch (...) {
    starpu_shutdown();
    throw;
  }
}

Session::~Session() {
  starpu_task_wait_for_all();
  naps_.reset();
  cuda_.reset();
  opencl_.reset();
  starpu_shutdown();
}

void Session::wait_all() const {
  starpu_task_wait_for_all();
}

Index Session::pending_tasks() const {
  return starpu_task_nsubmitted();
}

Index Session::workers() const {
  return starpu_worker_get_count();
}

Index Session::cpu_workers() const {
  return starpu_cpu_worker_get_count();
}

Index Session::opencl_workers() const {
  return starpu_opencl_worker_get_count();
}

Index Session::cuda_workers() const {
  return starpu_cuda_worker_get_count();
}

starpu_opencl_program* Session::opencl_program(const Codelet& codelet) {
  return opencl_->find(codelet);
}

std::string Session::version() {
  return loaded_starpu().text();
}

void Session::expect_scheduler(const std::string& name, const Schedulers& more) {
  const std::vector<std::string> known = known_schedulers(more);
  expect(std::find(known.begin(), known.end(), name) != known.end(),
         "unknown scheduler '{}'{}; known: {}", name, did_you_mean(name, known),
         fmt::join(known, ", "));
}

std::vector<std::string> Session::known_schedulers(const Schedulers& more) {
  std::vector<std::string> names;
  for (const starpu_sched_policy* policy : more) names.emplace_back(policy->policy_name);
  for (starpu_sched_policy** policy = starpu_sched_get_predefined_policies(); *policy != nullptr;
       ++policy)
    names.emplace_back((*policy)->policy_name);
  return names;
}

}  // namespace dos::rt
