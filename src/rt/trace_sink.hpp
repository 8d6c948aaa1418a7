// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/types.hpp"
#include "rt/handle.hpp"
#include "rt/profile.hpp"

struct starpu_task;

namespace dos::rt {

// What a trace is made of. Times in microseconds of StarPU's clock, which starts with it.

/// Now, on that clock.
double trace_clock_us();

/// A task that has run. Text in the record lives until the sink returns.
struct TaskTrace {
  TaskRecord record;
  Index number = 0;  ///< order of submission, from 0
  int priority = 0;
  std::uint32_t footprint = 0;
  double flops = 0;
  Index bytes = 0;           ///< of its buffers
  double submitted_us = 0;   ///< handed to StarPU
  double ready_us = 0;       ///< its dependencies were met; handed to the scheduler
  double taken_us = 0;       ///< a worker got it
  double data_start_us = 0;  ///< its worker began to wait for its buffers
  double data_end_us = 0;    ///< they were there
};

/// A buffer's contents went from one memory node to another.
struct CopyTrace {
  Index handle = -1;  ///< as TraceSink numbered it
  int from = 0;
  int to = 0;
  Index bytes = 0;
  double start_us = 0;
  double end_us = 0;
  /// Whether the copy was over at end_us. A copy that a device makes by itself was only started
  /// then, and StarPU does not tell when it ends.
  bool is_over = false;
};

/// Where the scheduler sends an update.
struct PlacementTrace {
  const char* subgroup = "";  ///< lives until the sink returns
  Index step = 0;
  Index params = 0;
  double time_us = 0;
  int node = 0;  ///< of the workers that are to run it
  bool is_resident = false;
};

/// Receives what happens in the runtime, on the thread on which it happens. Tasks, copies and
/// placements come from StarPU's workers, between tasks: those members must neither block nor
/// allocate.
class TraceSink {
 public:
  virtual ~TraceSink() = default;
  virtual void task_done(const TaskTrace& task) noexcept = 0;
  virtual void copied(const CopyTrace& copy) noexcept = 0;
  virtual void placed(const PlacementTrace& placement) noexcept = 0;
  /// A number for the next buffer, from 0.
  virtual Index next_handle() = 0;
  /// The buffer with that number is there, or goes. Work space (Handle::scratch) does not appear.
  virtual void handle_appeared(Index number, RawHandle handle, const HandleSpec& spec) = 0;
  virtual void handle_goes(Index number) = 0;
};

/// From now on `sink` receives; null: nobody. Returns when nobody uses the sink before any more.
/// Only buffers that appear while there is a sink have a number and tell of their copies.
void set_trace_sink(TraceSink* sink);

namespace detail {
/// Null when nobody receives; else leave_trace_sink() must follow.
TraceSink* enter_trace_sink() noexcept;
void leave_trace_sink() noexcept;
}  // namespace detail

/// Calls `use` with the sink, if there is one.
template <class Use>
void with_trace_sink(Use&& use) {
  if (TraceSink* sink = detail::enter_trace_sink()) {
    use(*sink);
    detail::leave_trace_sink();
  }
}

/// Tells the sink of a placement; `task` was submitted by a Submitter.
void trace_placement(const starpu_task* task, Index params, int node, bool is_resident);

}  // namespace dos::rt
