// SPDX-License-Identifier: Apache-2.0
#include "rt/submitter.hpp"

#include <starpu.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "base/error.hpp"
#include "rt/fxt.hpp"
#include "rt/history_model.hpp"
#include "rt/progress.hpp"
#include "rt/runtime_memory.hpp"
#include "rt/starpu_mode.hpp"
#include "rt/task_header.hpp"
#include "rt/trace_sink.hpp"

namespace dos::rt {
namespace {

template <class T>
T* allocate(std::size_t count) {
  void* memory = std::malloc(count * sizeof(T));
  if (memory == nullptr) throw std::bad_alloc();
  return static_cast<T*>(memory);
}

std::uint32_t footprint_of(const Work& work) {
  return starpu_hash_crc32c_be_n(work.sizes.data(), sizeof work.sizes, 0);
}

TaskHeader* make_argument_block(const TaskCall& call) {
  const std::size_t payload_offset = sizeof(TaskHeader) + call.arguments.size();
  const std::size_t bytes = payload_offset + call.payload.size();
  auto* block = allocate<std::byte>(bytes);
  if (!call.arguments.empty())
    std::memcpy(block + sizeof(TaskHeader), call.arguments.data(), call.arguments.size());
  if (!call.payload.empty())
    std::memcpy(block + payload_offset, call.payload.data(), call.payload.size());
  return new (block)
      TaskHeader{.task = nullptr,
                 .profile = nullptr,
                 .pending_bytes = nullptr,
                 .takes = task_bytes(std::ssize(call.buffers), static_cast<Index>(bytes)),
                 .opencl_program = nullptr,
                 .record = {},
                 .footprint = footprint_of(call.work),
                 .number = 0,
                 .buffers = static_cast<std::uint32_t>(call.buffers.size()),
                 .payload_offset = payload_offset,
                 .bytes = bytes,
                 .condition = call.options.condition,
                 .is_left_out = false};
}

void check_buffer_count(const TaskCall& call) {
  const std::size_t count = call.buffers.size();
  const std::size_t fixed = call.codelet.spec().modes.size();
  require(call.codelet.spec().tail ? count >= fixed : count == fixed,
          "number of buffers of a task");
}

void attach_buffers(starpu_task* task, const TaskCall& call) {
  const std::size_t count = call.buffers.size();
  starpu_data_handle_t* handles = task->handles;
  starpu_data_access_mode* modes = task->modes;
  if (count > STARPU_NMAXBUFS) {
    handles = task->dyn_handles = allocate<starpu_data_handle_t>(count);
    modes = task->dyn_modes = allocate<starpu_data_access_mode>(count);
  }
  for (std::size_t i = 0; i < count; ++i) {
    handles[i] = call.buffers[i]->raw();
    modes[i] = to_starpu(call.codelet.mode(static_cast<Index>(i)));
  }
  task->nbuffers = static_cast<int>(count);
}

bool is_of_model(Phase phase) {
  return phase == Phase::kForward || phase == Phase::kBackward || phase == Phase::kValidation;
}

void restrict_to(int worker, starpu_task* task) {
  if (worker == kAnyCpuWorker) task->where = STARPU_CPU;
  if (worker < 0) return;
  task->execute_on_a_specific_worker = 1;
  task->workerid = static_cast<unsigned>(worker);
}

LaneDevices lane_devices(const Session& session) {
  LaneDevices devices{.are_cuda = session.cuda_workers() > 0};
  const starpu_worker_archtype type = devices.are_cuda ? STARPU_CUDA_WORKER : STARPU_OPENCL_WORKER;
  for (int worker = 0; worker < static_cast<int>(starpu_worker_get_count()); ++worker)
    if (starpu_worker_get_type(worker) == type) devices.workers.push_back(worker);
  return devices;
}

std::vector<WorkerBits> workers_alone() {
  std::vector<WorkerBits> alone;
  for (unsigned worker = 0; worker < starpu_worker_get_count(); ++worker) {
    alone.emplace_back(worker / 32 + 1);
    alone.back().back() = std::uint32_t{1} << (worker % 32);
  }
  return alone;
}

/// The worker that a lane is dealt to, of several that can run the task; kAnyWorker: none.
int worker_of_lane(Index lane, const LaneDevices& devices, const starpu_task* task) {
  const bool can_run =
      devices.are_cuda ? task->cl->cuda_funcs[0] != nullptr : task->cl->opencl_funcs[0] != nullptr;
  const Index count = std::ssize(devices.workers);
  if (lane < 0 || count < 2 || !can_run) return kAnyWorker;
  return devices.workers[static_cast<std::size_t>(lane % count)];
}

void restrict_to_only(int worker, std::vector<WorkerBits>& alone, starpu_task* task) {
  if (worker == kAnyWorker) return;
  WorkerBits& bits = alone[static_cast<std::size_t>(worker)];
  task->workerids = bits.data();
  task->workerids_len = static_cast<unsigned>(bits.size());
}

double microseconds(const timespec& time) {
  return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) / 1e3;
}

TaskTrace describe(const TaskHeader& header, const TaskRecord& record) {
  const starpu_task& task = *header.task;
  const starpu_profiling_task_info& info = *task.profiling_info;
  TaskTrace trace{.record = record,
                  .number = header.number,
                  .priority = task.priority,
                  .footprint = header.footprint,
                  .flops = task.flops,
                  .bytes = 0,
                  .submitted_us = microseconds(info.submit_time),
                  .ready_us = microseconds(info.push_start_time),
                  .taken_us = microseconds(info.pop_end_time),
                  .data_start_us = microseconds(info.acquire_data_start_time),
                  .data_end_us = microseconds(info.acquire_data_end_time)};
  for (unsigned i = 0; i < header.buffers; ++i)
    trace.bytes += static_cast<Index>(starpu_data_get_size(STARPU_TASK_GET_HANDLE(&task, i)));
  return trace;
}

/// StarPU calls it when the task's dependencies are fulfilled, before it asks for data or a worker.
void decide(void* argument) {
  auto& header = *static_cast<TaskHeader*>(argument);
  header.is_left_out = !header.condition.holds(header.condition.what);
  if (header.is_left_out) header.task->where = STARPU_NOWHERE;
}

void report_completion(void* argument) {
  const auto& header = *static_cast<const TaskHeader*>(argument);
  const starpu_profiling_task_info* info = header.task->profiling_info;
  TaskRecord record = header.record;
  if (!header.is_left_out) {
    record.worker = info->workerid;
    record.start_us = microseconds(info->start_time);
    record.end_us = microseconds(info->end_time);
    with_trace_sink([&](TraceSink& sink) { sink.task_done(describe(header, record)); });
  }
  note_end_of_task();
  // Before the step is told to be complete: whoever waits for it may end the submitter.
  *header.pending_bytes -= header.takes;
  header.pending_bytes->notify_one();
  if (header.is_left_out)
    header.profile->cancel_task(record.tag);
  else
    header.profile->complete_task(record);
}

}  // namespace

Submitter::Submitter(Session& session, Index most_pending)
    : session_(session),
      most_pending_(most_pending),
      lane_devices_(lane_devices(session)),
      alone_(workers_alone()) {}

Submitter::~Submitter() {
  session_.wait_all();
}

void Submitter::set_tag(const TaskTag& tag) {
  const bool is_new = tag.phase != tag_.phase || tag.step != tag_.step;
  tag_ = tag;
  if (is_new && has_fxt())
    note_in_fxt(fmt::format("dos: {}, step {}, micro-batch {}", name_of(tag.phase), tag.step,
                            tag.micro_batch));
}

void Submitter::set_phase(Phase phase) {
  TaskTag tag = tag_;
  tag.phase = phase;
  set_tag(tag);
}

/// A task that is too large for all of it waits until it is alone.
void Submitter::wait_for_room(Index bytes) {
  const Index most = most_pending_ * kMostBytesATask - bytes;
  for (Index taken = pending_bytes_; taken > 0 && taken > most; taken = pending_bytes_)
    pending_bytes_.wait(taken);
  pending_bytes_ += bytes;
}

bool Submitter::is_for_gpus(const TaskCall& call) const {
  const int worker = call.options.worker;
  const bool may_choose = worker == kAnyWorker && (keep_from_cpus_ || is_of_model(tag_.phase));
  return (may_choose || worker == kAnyModelWorker) && lane_devices_.are_cuda &&
         call.codelet.runs_on_cuda();
}

void Submitter::submit(const TaskCall& call) {
  check_buffer_count(call);
  if (observer_.before) observer_.before(call);
  starpu_task_wait_for_n_submitted(static_cast<unsigned>(most_pending_ - 1));
  if (submitted_.insert(&call.codelet).second) expect_readable_history(call.codelet.symbol());
  starpu_opencl_program* opencl_program = session_.opencl_program(call.codelet);
  starpu_task* task = starpu_task_create();
  task->cl = call.codelet.raw();
  task->name = call.codelet.symbol();
  attach_buffers(task, call);
  TaskHeader* header = make_argument_block(call);
  wait_for_room(header->takes);
  header->task = task;
  header->profile = &profile_;
  header->pending_bytes = &pending_bytes_;
  header->opencl_program = opencl_program;
  header->record.codelet = &call.codelet;
  header->record.label = call.options.label;
  header->record.tag = tag_;
  header->number = submissions_++;
  if (tag_.phase == Phase::kUpdate && has_fxt())
    note_in_fxt(fmt::format("dos: task {}, {}", header->number, call.options.label));
  task->cl_arg = header;
  task->cl_arg_size = header->bytes;
  task->cl_arg_free = 1;
  if (call.options.condition.holds != nullptr) {
    task->prologue_callback_func = decide;
    task->prologue_callback_arg = header;
  }
  task->callback_func = report_completion;
  task->callback_arg = header;
  task->flops = call.work.flops;
  task->priority = std::clamp(call.options.priority, starpu_sched_get_min_priority(),
                              starpu_sched_get_max_priority());
  restrict_to(call.options.worker, task);
  restrict_to_only(call.options.keeper == kAnyWorker ? worker_of_lane(lane_, lane_devices_, task)
                                                     : call.options.keeper,
                   alone_, task);
  if (is_for_gpus(call)) task->where = STARPU_CUDA;
  profile_.expect_task(tag_);
  const int result = starpu_task_submit(task);
  if (result != 0) {
    profile_.cancel_task(tag_);
    pending_bytes_ -= header->takes;
    task->destroy = 0;
    starpu_task_destroy(task);
    fail("no worker of this run can execute codelet {} (error {})", call.codelet.symbol(), result);
  }
  if (observer_.after) observer_.after(call);
}

void Submitter::release(const Handle& handle) {
  if (releases_ && session_.has_devices()) handle.release();
}

}  // namespace dos::rt
