// SPDX-License-Identifier: Apache-2.0
#include "rt/trace_sink.hpp"

#include <starpu.h>

#include <atomic>
#include <thread>

#include "rt/task_header.hpp"

namespace dos::rt {
namespace {

std::atomic<TraceSink*> current_sink{nullptr};
std::atomic<Index> uses{0};

}  // namespace

double trace_clock_us() {
  return starpu_timing_now();
}

void set_trace_sink(TraceSink* sink) {
  current_sink = sink;
  while (uses != 0) std::this_thread::yield();
}

namespace detail {

TraceSink* enter_trace_sink() noexcept {
  if (current_sink.load(std::memory_order_relaxed) == nullptr) return nullptr;
  ++uses;
  TraceSink* sink = current_sink;
  if (sink == nullptr) --uses;
  return sink;
}

void leave_trace_sink() noexcept {
  --uses;
}

}  // namespace detail

void trace_placement(const starpu_task* task, Index params, int node, bool is_resident) {
  with_trace_sink([&](TraceSink& sink) {
    const TaskRecord& record = static_cast<const TaskHeader*>(task->cl_arg)->record;
    sink.placed({.subgroup = record.label,
                 .step = record.tag.step,
                 .params = params,
                 .time_us = trace_clock_us(),
                 .node = node,
                 .is_resident = is_resident});
  });
}

}  // namespace dos::rt
