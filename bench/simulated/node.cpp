// SPDX-License-Identifier: Apache-2.0
// The part of update_phase that runs on the simulated node, with StarPU's SimGrid in the place of
// its devices and of time. Tasks do nothing and take what the machine file says; policy, transfers,
// memory and evictions are the real ones.
#include <starpu.h>
#include <sys/mman.h>

#include <cstdio>
#include <exception>
#include <string>
#include <tuple>
#include <vector>

#include "base/error.hpp"
#include "rt/session.hpp"
#include "sched/subgroup_size.hpp"
#include "sched_starpu/policies.hpp"
#include "simulated/exchange.hpp"

namespace {

using dos::Index;
using dos::bench::NodeResult;
using dos::bench::NodeStep;
using dos::bench::NodeTask;

/// Steps before those that count: the first learns the rates, in the second the states that stay on
/// a GPU arrive there.
constexpr Index kWarmUps = 2;
constexpr double kMicro = 1e-6;

// Per worker; StarPU's cost functions have no other way to know.
double cpu_rate = 0;
double gpu_rate = 0;

void do_nothing(void** /*buffers*/, void* /*argument*/) {}

double update_time(starpu_task* task, starpu_perfmodel_arch* arch, unsigned /*implementation*/) {
  const auto params = static_cast<double>(starpu_vector_get_nx(task->handles[0]));
  const double rate = arch->devices[0].type == STARPU_CPU_WORKER ? cpu_rate : gpu_rate;
  return params / rate / kMicro;
}

double no_time(starpu_task* /*task*/, starpu_perfmodel_arch* /*arch*/, unsigned /*impl*/) {
  return 1;
}

/// A codelet and its model; neither may move, as StarPU refers to both.
struct Kernel {
  starpu_perfmodel model{};
  starpu_codelet codelet{};

  Kernel(const char* symbol, decltype(&update_time) time,
         const std::vector<starpu_data_access_mode>& modes, bool on_cpu) {
    model.type = STARPU_PER_ARCH;
    model.symbol = symbol;
    model.arch_cost_function = time;
    starpu_codelet_init(&codelet);
    if (on_cpu) codelet.cpu_funcs[0] = do_nothing;
    codelet.cuda_funcs[0] = do_nothing;
    codelet.cuda_flags[0] = STARPU_CUDA_ASYNC;
    codelet.nbuffers = static_cast<int>(modes.size());
    for (std::size_t i = 0; i < modes.size(); ++i) codelet.modes[i] = modes[i];
    codelet.model = &model;
    codelet.name = symbol;
  }
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;
  ~Kernel() = default;
};

/// Addresses without memory: nobody reads or writes them.
class Addresses {
 public:
  explicit Addresses(std::size_t bytes)
      : bytes_(bytes),
        start_(
            ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    dos::expect(start_ != MAP_FAILED,
                "no address range of {:.4g} GB for the simulated host memory: use fewer --params, "
                "or raise ulimit -v",
                static_cast<double>(bytes) / 1e9);
  }
  Addresses(const Addresses&) = delete;
  Addresses& operator=(const Addresses&) = delete;
  ~Addresses() { ::munmap(start_, bytes_); }

  std::uintptr_t take(std::size_t bytes) {
    const std::uintptr_t place = reinterpret_cast<std::uintptr_t>(start_) + taken_;
    taken_ += bytes;
    return place;
  }

 private:
  std::size_t bytes_;
  void* start_;
  std::size_t taken_ = 0;
};

struct Buffers {
  starpu_data_handle_t p = nullptr, m = nullptr, v = nullptr, g = nullptr, w = nullptr;
  [[nodiscard]] std::vector<starpu_data_handle_t> all() const { return {p, m, v, g, w}; }
};

/// Bytes over all links so far, by direction.
NodeStep transferred() {
  NodeStep sum;
  for (int bus = 0; bus < starpu_bus_get_count(); ++bus) {
    starpu_profiling_bus_info info{};
    starpu_bus_get_profiling_info(bus, &info);
    const auto bytes = static_cast<double>(info.transferred_bytes);
    if (starpu_bus_get_dst(bus) != STARPU_MAIN_RAM) sum.bytes_h2d += bytes;
    if (starpu_bus_get_src(bus) != STARPU_MAIN_RAM) sum.bytes_d2h += bytes;
  }
  return sum;
}

/// The training program as far as an update sees it: forward and backward on the GPUs read the
/// working parameters and leave gradients there.
class Program {
 public:
  explicit Program(const NodeTask& task)
      : subgroups_(dos::sched::cut_evenly(task.params, task.subgroup_params)),
        addresses_(static_cast<std::size_t>(task.params) * kBytesPerParam),
        buffers_(subgroups_.size()) {
    for (std::size_t i = 0; i < buffers_.size(); ++i) {
      const auto count = static_cast<std::size_t>(subgroups_[i].params);
      Buffers& b = buffers_[i];
      for (const auto& [handle, bytes, name] : {std::tuple{&b.p, 4, "p"},
                                                {&b.m, 4, "m"},
                                                {&b.v, 4, "v"},
                                                {&b.g, 2, "g"},
                                                {&b.w, 2, "w"}}) {
        const auto size = static_cast<std::size_t>(bytes);
        starpu_vector_data_register(handle, STARPU_MAIN_RAM, addresses_.take(count * size),
                                    static_cast<std::uint32_t>(count), size);
        starpu_data_set_name(*handle, name);
      }
    }
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program() {
    for (const Buffers& each : buffers_)
      for (starpu_data_handle_t handle : each.all()) starpu_data_unregister_no_coherency(handle);
  }

  /// Working parameters dealt to the GPUs.
  void load() {
    const auto gpus = static_cast<std::size_t>(starpu_cuda_worker_get_count());
    std::vector<int> workers(gpus);
    starpu_worker_get_ids_by_type(STARPU_CUDA_WORKER, workers.data(), static_cast<unsigned>(gpus));
    for (std::size_t i = 0; i < buffers_.size(); ++i) {
      starpu_task* task = make(load_, {buffers_[i].w}, i);
      task->execute_on_a_specific_worker = 1;
      task->workerid = static_cast<unsigned>(workers[i % gpus]);
      submit(task);
    }
    starpu_task_wait_for_all();
  }

  /// Gradients, from the last layer to the first.
  void backward() {
    for (std::size_t i = buffers_.size(); i-- > 0;)
      submit(make(backward_, {buffers_[i].w, buffers_[i].g}, i));
    starpu_task_wait_for_all();
  }

  /// Every update, and the working parameters where the next forward needs them.
  NodeStep update() {
    const NodeStep before = transferred();
    const double start = starpu_timing_now();
    for (std::size_t i = 0; i < buffers_.size(); ++i) {
      const Buffers& b = buffers_[i];
      submit(make(update_, {b.p, b.m, b.v, b.g, b.w}, i));
      submit(make(forward_, {b.w}, i));
    }
    starpu_task_wait_for_all();
    const double end = starpu_timing_now();
    const NodeStep after = transferred();
    return {.seconds = (end - start) * kMicro,
            .bytes_h2d = after.bytes_h2d - before.bytes_h2d,
            .bytes_d2h = after.bytes_d2h - before.bytes_d2h};
  }

 private:
  /// FP32 parameters and two moments, 16-bit gradients and working parameters.
  static constexpr std::size_t kBytesPerParam = 16;

  starpu_task* make(Kernel& kernel, const std::vector<starpu_data_handle_t>& handles,
                    std::size_t place) const {
    starpu_task* task = starpu_task_create();
    task->cl = &kernel.codelet;
    for (std::size_t i = 0; i < handles.size(); ++i) task->handles[i] = handles[i];
    // The next forward needs the first subgroups first.
    task->priority = static_cast<int>(buffers_.size() - place);
    return task;
  }
  static void submit(starpu_task* task) {
    dos::require(starpu_task_submit(task) == 0, "a worker for every task");
  }

  Kernel update_{"dos.update.simulated",
                 update_time,
                 {STARPU_RW, STARPU_RW, STARPU_RW, STARPU_R, STARPU_W},
                 true};
  Kernel forward_{"forward", no_time, {STARPU_R}, false};
  Kernel load_{"load", no_time, {STARPU_W}, false};
  Kernel backward_{"backward", no_time, {STARPU_R, STARPU_W}, false};
  std::vector<dos::sched::Subgroup> subgroups_;
  Addresses addresses_;
  std::vector<Buffers> buffers_;
};

NodeResult run(const NodeTask& task) {
  cpu_rate = task.cpu_rate;
  gpu_rate = task.gpu_rate;
  dos::sched_starpu::configure({.options = task.options});
  const dos::rt::Session session({.scheduler = task.policy,
                                  .cpu_workers = task.cpu_workers,
                                  .cuda_workers = task.gpus,
                                  .schedulers = dos::sched_starpu::policies()});
  starpu_bus_get_profiling_info(0, nullptr);
  Program program(task);
  program.load();
  NodeResult result;
  for (Index step = 0; step < kWarmUps + task.steps; ++step) {
    program.backward();
    const NodeStep measured = program.update();
    if (step >= kWarmUps) result.steps.push_back(measured);
  }
  const dos::sched_starpu::Report report = dos::sched_starpu::report();
  result.plan = report.plan;
  result.obstacle = report.obstacle;
  if (!report.steps.empty())
    result.gpu_share = report.steps.back().executed_gpu / report.steps.back().total;
  return result;
}

}  // namespace

// StarPU's header makes it starpu_main, which SimGrid calls: it returns, and calls no exit().
int main(int argc, char** argv) {
  std::string answer;
  try {
    dos::require(argc == 2, "started by update_phase");
    answer = to_json(run(dos::bench::node_task_of(argv[1])));
  } catch (const std::exception& error) {
    answer = dos::bench::error_json(error.what());
  }
  std::printf("%s\n", answer.c_str());
  return 0;
}
