// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <starpu.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "simulated/node_protocol.hpp"

/// What programs on a simulated node are made of.
namespace dos::bench {

inline constexpr double kMicro = 1e-6;

inline void do_nothing(void** /*buffers*/, void* /*argument*/) {}

/// What a task takes on a kind of worker, in microseconds.
using TimeOf = double (*)(starpu_task* task, starpu_perfmodel_arch* arch, unsigned implementation);

/// A codelet and its model; neither may move, as StarPU refers to both. Without modes its tasks
/// bring their own.
struct Kernel {
  starpu_perfmodel model{};
  starpu_codelet codelet{};

  Kernel(const char* symbol, TimeOf time, const std::vector<starpu_data_access_mode>& modes,
         bool on_cpu) {
    model.type = STARPU_PER_ARCH;
    model.symbol = symbol;
    model.arch_cost_function = time;
    starpu_codelet_init(&codelet);
    if (on_cpu) codelet.cpu_funcs[0] = do_nothing;
    codelet.cuda_funcs[0] = do_nothing;
    codelet.cuda_flags[0] = STARPU_CUDA_ASYNC;
    codelet.nbuffers = modes.empty() ? STARPU_VARIABLE_NBUFFERS : static_cast<int>(modes.size());
    for (std::size_t i = 0; i < modes.size(); ++i) codelet.modes[i] = modes[i];
    codelet.model = &model;
    codelet.name = symbol;
  }
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;
  ~Kernel() = default;
};

/// The buffers of a task.
using Access = std::vector<std::pair<starpu_data_handle_t, starpu_data_access_mode>>;

/// StarPU frees the lists with the task.
inline void attach(starpu_task* task, const Access& access) {
  task->nbuffers = static_cast<int>(access.size());
  task->dyn_handles =
      static_cast<starpu_data_handle_t*>(std::malloc(access.size() * sizeof *task->dyn_handles));
  task->dyn_modes =
      static_cast<starpu_data_access_mode*>(std::malloc(access.size() * sizeof *task->dyn_modes));
  require(task->dyn_handles != nullptr && task->dyn_modes != nullptr, "some memory");
  for (std::size_t i = 0; i < access.size(); ++i)
    std::tie(task->dyn_handles[i], task->dyn_modes[i]) = access[i];
}

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

/// All that main() of a program on a simulated node does: it takes a task as argument and prints
/// its result or the error, both as JSON. Returns main's value, as it must: SimGrid calls it.
template <class Task, class Result>
int answer(int argc, char** argv, const char* starter, Result (*run)(const Task&)) {
  std::string text;
  try {
    expect(argc == 2, "{} starts this program", starter);
    text = write_message(run(read_message<Task>(argv[1])));
  } catch (const std::exception& error) {
    text = failure_message(error.what());
  }
  std::printf("%s\n", text.c_str());
  return 0;
}

}  // namespace dos::bench
