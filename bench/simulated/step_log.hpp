// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <starpu.h>

#include <map>
#include <string>
#include <vector>

#include "rt/memory_ledger.hpp"
#include "simulated/step_task.hpp"
#include "trace/rows.hpp"

namespace dos::bench {

/// What a task of the simulated step is, for the trace.
struct Note {
  std::string label;
  const char* phase = "";
  Index step = 0;
  Index number = 0;
  double microseconds = 0;  ///< that it takes, where the codelet's model asks
};

/// Buffers of a simulated node: StarPU vectors of `bytes`, that nobody reads or writes.
class Buffers {
 public:
  Buffers() = default;
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;
  ~Buffers();

  /// `elements` of `element_bytes`; `home` is an address in host memory, 0: there is none, and
  /// nothing in it yet. `room`: elements for which the GPU allocates memory.
  starpu_data_handle_t add(const std::string& name, MemoryCategory category, std::uintptr_t home,
                           Index elements, Index element_bytes, Index room = 0);

  struct Buffer {
    starpu_data_handle_t handle = nullptr;
    std::string name;
    MemoryCategory category{};
    Index bytes = 0;
    bool has_home = false;
  };
  [[nodiscard]] const std::vector<Buffer>& all() const { return all_; }
  [[nodiscard]] const Buffer* find(starpu_data_handle_t handle) const;

 private:
  std::vector<Buffer> all_;
  std::map<starpu_data_handle_t, std::size_t> places_;
};

/// The trace of a simulated run, in the format of docs/traces.md. SimGrid runs one thread at a
/// time, and none of these members gives it a chance to change: there are no locks.
class StepLog {
 public:
  /// Copies and placements come here from now on.
  explicit StepLog(const Buffers& buffers);
  StepLog(const StepLog&) = delete;
  StepLog& operator=(const StepLog&) = delete;
  ~StepLog();

  /// Tasks and placements of these steps are wanted, whenever they are.
  void expect_steps(Index first, Index last) { first_ = first, last_ = last; }
  /// Copies and looks at memory are wanted from now on, or no longer.
  void open() { is_open_ = true; }
  void close() { is_open_ = false; }
  /// A task has ended; StarPU's profile of it is there.
  void task_done(const starpu_task& task, const Note& note);
  void copied(starpu_data_handle_t handle, unsigned from, unsigned to, double start);
  void placed(const Note& note, Index params, int node, bool is_resident);
  /// Rows for what has changed since the last time; with a step, for everything.
  void sample_memory(Index step);

  /// Writes the folder that `report` reads.
  void write(const StepTask& task) const;

 private:
  [[nodiscard]] bool wants(Index step) const { return step >= first_ && step <= last_; }

  const Buffers& buffers_;
  bool is_open_ = false;
  Index first_ = 1;
  Index last_ = 0;
  std::vector<trace::Task> tasks_;
  std::vector<trace::Transfer> transfers_;
  std::vector<trace::Memory> memory_;
  std::vector<trace::UpdatePlacement> placements_;
  std::map<std::pair<int, MemoryCategory>, Index> sampled_;
};

/// The scheduler's observer (sched_starpu::SchedulerSettings): tasks carry a Note as their
/// argument.
void note_placement(const starpu_task* task, Index params, int node, bool is_resident);

}  // namespace dos::bench
