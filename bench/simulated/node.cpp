// SPDX-License-Identifier: Apache-2.0
// The part of update_phase that runs on the simulated node, with StarPU's SimGrid in the place of
// its devices and of time. Tasks do nothing and take what the machine file says; policy, transfers,
// memory and evictions are the real ones.
#include <starpu.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "rt/session.hpp"
#include "sched/cut.hpp"
#include "sched_starpu/policies.hpp"
#include "simulated/node_protocol.hpp"
#include "simulated/step_parts.hpp"
#include "update_result.hpp"

namespace {

using dos::Index;
using dos::bench::Addresses;
using dos::bench::Kernel;
using dos::bench::kMicro;
using dos::bench::NodeResult;
using dos::bench::NodeStep;
using dos::bench::NodeTask;

// Per worker; StarPU's cost functions have no other way to know.
double cpu_rate = 0;
double gpu_rate = 0;
/// By worker, how many times as long an update takes; StarPU asks on the worker that runs it.
std::map<int, double> slow_workers;

double update_time(starpu_task* task, starpu_perfmodel_arch* arch, unsigned /*implementation*/) {
  const auto params = static_cast<double>(starpu_vector_get_nx(task->handles[0]));
  const double rate = arch->devices[0].type == STARPU_CPU_WORKER ? cpu_rate : gpu_rate;
  const auto slow = slow_workers.find(starpu_worker_get_id());
  return params / rate / kMicro * (slow == slow_workers.end() ? 1 : slow->second);
}

double no_time(starpu_task* /*task*/, starpu_perfmodel_arch* /*arch*/, unsigned /*impl*/) {
  return 1;
}

struct Subgroup {
  starpu_data_handle_t p = nullptr, m = nullptr, v = nullptr, g = nullptr, w = nullptr;
  unsigned gpu = 0;  ///< the worker whose forward and backward use w and g
  Index params = 0;
  std::map<unsigned, Index>* held = nullptr;  ///< parameters that each GPU uses
  int urgency = 0;                            ///< of w: above all updates, the first layers first
};

/// What a trainer does when an update has ended: where a GPU did it, that GPU's forward and
/// backward use the parameters from now on; otherwise they go to the GPU that used them before, or
/// to the one with the least if that has more than its part, which costs nothing: they come from
/// the host.
void use_result(void* argument) noexcept {
  Subgroup& subgroup = *static_cast<Subgroup*>(argument);
  const auto worker = static_cast<unsigned>(starpu_worker_get_id_check());
  const bool on_gpu = starpu_worker_get_type(static_cast<int>(worker)) == STARPU_CUDA_WORKER;
  std::map<unsigned, Index>& held = *subgroup.held;
  const auto least =
      std::ranges::min_element(held, {}, [](const auto& each) { return each.second; });
  const bool has_more = held[subgroup.gpu] > least->second + subgroup.params;
  const unsigned gpu = on_gpu ? worker : has_more ? least->first : subgroup.gpu;
  held[subgroup.gpu] -= subgroup.params;
  held[gpu] += subgroup.params;
  subgroup.gpu = gpu;
  if (!on_gpu)
    starpu_data_prefetch_on_node_prio(subgroup.w, starpu_worker_get_memory_node(gpu), 1,
                                      subgroup.urgency);
}

/// The training program as far as an update sees it: forward and backward on the GPUs read the
/// working parameters and leave gradients there, a layer at a time.
class Program {
 public:
  explicit Program(const NodeTask& task)
      : sizes_(dos::sched::cut_into(task.params, task.cut)),
        addresses_(static_cast<std::size_t>(task.params) * kBytesPerParam),
        gpus_(static_cast<std::size_t>(task.gpus)),
        subgroups_(sizes_.size()) {
    starpu_worker_get_ids_by_type(STARPU_CUDA_WORKER, gpus_.data(),
                                  static_cast<unsigned>(gpus_.size()));
    const std::vector<dos::Index> users = dos::bench::deal(sizes_, task.gpus);
    for (std::size_t i = 0; i < subgroups_.size(); ++i) {
      Subgroup& s = subgroups_[i];
      s.gpu = static_cast<unsigned>(gpus_[static_cast<std::size_t>(users[i])]);
      s.params = sizes_[i].params;
      s.held = &held_;
      held_[s.gpu] += s.params;
      s.urgency = static_cast<int>(2 * subgroups_.size() - i);
      for (const auto& [handle, bytes, name] : {std::tuple{&s.p, 4U, "p"},
                                                {&s.m, 4U, "m"},
                                                {&s.v, 4U, "v"},
                                                {&s.g, 2U, "g"},
                                                {&s.w, 2U, "w"}}) {
        const auto count = static_cast<std::uint32_t>(sizes_[i].params);
        // The last subgroup may be smaller: in memory of the size of the first ones StarPU need
        // not free one of theirs, and allocate, each time that it comes.
        const std::size_t allocated =
            static_cast<std::size_t>(std::max(s.params, sizes_.front().params)) * bytes;
        starpu_vector_data_register_allocsize(handle, STARPU_MAIN_RAM,
                                              addresses_.take(std::size_t{count} * bytes), count,
                                              bytes, allocated);
        starpu_data_set_name(*handle, name);
      }
    }
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program() {
    for (const Subgroup& s : subgroups_)
      for (starpu_data_handle_t handle : {s.p, s.m, s.v, s.g, s.w})
        starpu_data_unregister_no_coherency(handle);
  }

  void load() {
    on_every_gpu([](const Subgroup& s) { return Access{{s.w, STARPU_W}}; });
  }
  void backward() {
    on_every_gpu([](const Subgroup& s) { return Access{{s.w, STARPU_R}, {s.g, STARPU_W}}; });
  }

  /// Every update, until the next forward has the working parameters.
  NodeStep update() {
    dos::bench::take_transferred();
    const double start = starpu_timing_now();
    for (std::size_t i = 0; i < subgroups_.size(); ++i) submit_update(i);
    starpu_task_wait_for_all();
    on_every_gpu([](const Subgroup& s) { return Access{{s.w, STARPU_R}}; });
    const double end = starpu_timing_now();
    NodeStep result = dos::bench::take_transferred();
    result.seconds = (end - start) * kMicro;
    return result;
  }

 private:
  using Access = std::vector<std::pair<starpu_data_handle_t, starpu_data_access_mode>>;
  /// FP32 parameters and two moments, 16-bit gradients and working parameters.
  static constexpr std::size_t kBytesPerParam = 16;
  /// Of a GPT of some billion parameters.
  static constexpr std::size_t kLayers = 32;

  void submit_update(std::size_t place) {
    Subgroup& s = subgroups_[place];
    starpu_task* task = starpu_task_create();
    task->cl = &update_.codelet;
    std::size_t buffer = 0;
    for (starpu_data_handle_t handle : {s.p, s.m, s.v, s.g, s.w}) task->handles[buffer++] = handle;
    // The next forward needs the first subgroups first.
    task->priority = static_cast<int>(subgroups_.size() - place);
    task->callback_func = use_result;
    task->callback_arg = &s;
    submit(task);
  }

  /// A task a layer on each GPU that uses `access(subgroup)` of its subgroups there, and waits.
  template <class AccessOf>
  void on_every_gpu(AccessOf&& access) {
    const std::size_t layer = (subgroups_.size() + kLayers - 1) / kLayers;
    for (std::size_t first = 0; first < subgroups_.size(); first += layer)
      for (const int gpu : gpus_) {
        Access all;
        for (std::size_t i = first; i < std::min(first + layer, subgroups_.size()); ++i) {
          if (static_cast<int>(subgroups_[i].gpu) != gpu) continue;
          for (const auto& each : access(subgroups_[i])) all.push_back(each);
        }
        if (!all.empty()) submit_pass(all, static_cast<unsigned>(gpu));
      }
    starpu_task_wait_for_all();
  }

  void submit_pass(const Access& access, unsigned gpu) {
    starpu_task* task = starpu_task_create();
    task->cl = &pass_.codelet;
    task->nbuffers = static_cast<int>(access.size());
    // StarPU frees them with the task.
    task->dyn_handles =
        static_cast<starpu_data_handle_t*>(std::malloc(access.size() * sizeof *task->dyn_handles));
    task->dyn_modes =
        static_cast<starpu_data_access_mode*>(std::malloc(access.size() * sizeof *task->dyn_modes));
    dos::require(task->dyn_handles != nullptr && task->dyn_modes != nullptr, "some memory");
    for (std::size_t i = 0; i < access.size(); ++i)
      std::tie(task->dyn_handles[i], task->dyn_modes[i]) = access[i];
    task->execute_on_a_specific_worker = 1;
    task->workerid = gpu;
    submit(task);
  }
  static void submit(starpu_task* task) {
    dos::require(starpu_task_submit(task) == 0, "a worker for every task");
  }

  Kernel update_{"dos.update.simulated",
                 update_time,
                 {STARPU_RW, STARPU_RW, STARPU_RW, STARPU_R, STARPU_W},
                 true};
  Kernel pass_{"pass", no_time, {}, false};
  std::vector<dos::sched::Subgroup> sizes_;
  Addresses addresses_;
  std::vector<int> gpus_;
  std::map<unsigned, Index> held_;
  std::vector<Subgroup> subgroups_;
};

/// The same step while a GPU or a CPU worker is slow, which no plan has expected.
double slow_step(Program& program, const dos::bench::Slowness& slow) {
  slow_workers[starpu_worker_get_by_type(STARPU_CUDA_WORKER, 0)] = slow.gpu;
  slow_workers[starpu_worker_get_by_type(STARPU_CPU_WORKER, 0)] = slow.worker;
  program.backward();
  return program.update().seconds;
}

NodeResult run(const NodeTask& task) {
  cpu_rate = task.cpu_rate;
  gpu_rate = task.gpu_rate;
  dos::sched_starpu::configure({.options = task.options});
  const dos::rt::Session session({.scheduler = task.policy,
                                  .cpu_workers = task.cpu_workers,
                                  .cuda_workers = task.gpus,
                                  .schedulers = dos::sched_starpu::policies()});
  Program program(task);
  program.load();
  NodeResult result = dos::bench::measure(task.warm_ups, task.steps, [&] {
    program.backward();
    return program.update();
  });
  if (task.slow.is_asked_for()) result.slow_seconds = slow_step(program, task.slow);
  return result;
}

}  // namespace

// StarPU's header makes it starpu_main.
int main(int argc, char** argv) {
  return dos::bench::answer(argc, argv, "update_phase", run);
}
