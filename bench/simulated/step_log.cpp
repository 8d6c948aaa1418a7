// SPDX-License-Identifier: Apache-2.0
#include "simulated/step_log.hpp"

#include <algorithm>
#include <filesystem>

#include "base/error.hpp"
#include "base/file.hpp"
#include "rt/machine_view.hpp"
#include "trace/row_file.hpp"
#include "trace/trace_files.hpp"
#include "trace/trace_manifest.hpp"

namespace {

// StarPU's simulator copies nothing, so no copy method of a buffer is called. But it asks for the
// size of the buffer, and then, before any other thread runs, says that a copy starts, from where
// and to where: that function, public in StarPU, is replaced by the one below.
dos::bench::StepLog* current_log = nullptr;
starpu_data_handle_t last_measured = nullptr;

std::size_t size_of_buffer(starpu_data_handle_t handle) {
  last_measured = handle;
  return starpu_interface_vector_ops.get_size(handle);
}

}  // namespace

void starpu_interface_start_driver_copy_async(unsigned from, unsigned to, double* start) {
  *start = starpu_timing_now();
  if (current_log != nullptr) current_log->copied(last_measured, from, to, *start);
}

namespace dos::bench {
namespace {

double microseconds(const timespec& time) {
  return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) / 1e3;
}

template <class Row>
Index write_rows(const std::filesystem::path& folder, const std::vector<Row>& rows) {
  trace::RowFile file(folder / Row::kFile, trace::csv_header<Row>());
  for (const Row& row : rows) file.add(row);
  file.flush();
  return file.rows();
}

}  // namespace

Buffers::~Buffers() {
  for (const Buffer& each : all_) starpu_data_unregister_no_coherency(each.handle);
}

starpu_data_handle_t Buffers::add(const std::string& name, MemoryCategory category,
                                  std::uintptr_t home, Index elements, Index element_bytes,
                                  Index room) {
  static starpu_data_interface_ops operations = [] {
    starpu_data_interface_ops copied = starpu_interface_vector_ops;
    copied.get_size = &size_of_buffer;
    return copied;
  }();
  starpu_vector_interface vector{};
  vector.id = STARPU_VECTOR_INTERFACE_ID;
  vector.ptr = vector.dev_handle = home;
  vector.nx = static_cast<std::uint32_t>(elements);
  vector.elemsize = static_cast<std::size_t>(element_bytes);
  vector.allocsize = static_cast<std::size_t>(std::max(elements, room) * element_bytes);
  starpu_data_handle_t handle = nullptr;
  starpu_data_register(&handle, home == 0 ? -1 : STARPU_MAIN_RAM, &vector, &operations);
  starpu_data_set_name(handle, name.c_str());
  places_[handle] = all_.size();
  all_.push_back({.handle = handle,
                  .name = name,
                  .category = category,
                  .bytes = elements * element_bytes,
                  .has_home = home != 0});
  return handle;
}

const Buffers::Buffer* Buffers::find(starpu_data_handle_t handle) const {
  const auto found = places_.find(handle);
  return found == places_.end() ? nullptr : &all_[found->second];
}

StepLog::StepLog(const Buffers& buffers) : buffers_(buffers) {
  current_log = this;
}

StepLog::~StepLog() {
  current_log = nullptr;
}

void StepLog::task_done(const starpu_task& task, const Note& note) {
  if (!wants(note.step)) return;
  const starpu_profiling_task_info& info = *task.profiling_info;
  tasks_.push_back({.codelet = task.cl->name,
                    .label = note.label,
                    .phase = note.phase,
                    .step = note.step,
                    .micro_batch = note.phase == std::string_view("update") ? -1 : 0,
                    .worker = info.workerid,
                    .number = note.number,
                    .priority = task.priority,
                    .submitted = microseconds(info.submit_time),
                    .ready = microseconds(info.push_start_time),
                    .taken = microseconds(info.pop_end_time),
                    .data_start = microseconds(info.acquire_data_start_time),
                    .data_end = microseconds(info.acquire_data_end_time),
                    .start = microseconds(info.start_time),
                    .end = microseconds(info.end_time)});
  for (unsigned i = 0; i < STARPU_TASK_GET_NBUFFERS(&task); ++i)
    tasks_.back().bytes +=
        static_cast<Index>(starpu_interface_vector_ops.get_size(STARPU_TASK_GET_HANDLE(&task, i)));
}

void StepLog::copied(starpu_data_handle_t handle, unsigned from, unsigned to, double start) {
  const Buffers::Buffer* buffer = buffers_.find(handle);
  if (!is_open_ || buffer == nullptr) return;
  transfers_.push_back({.buffer = buffer->name,
                        .category = name_of(buffer->category),
                        .from = from,
                        .to = to,
                        .bytes = buffer->bytes,
                        .start = start,
                        .end = start,
                        .measured = 0});
}

void StepLog::placed(const Note& note, Index params, int node, bool is_resident) {
  if (!wants(note.step)) return;
  placements_.push_back({.subgroup = note.label,
                         .step = note.step,
                         .params = params,
                         .time = starpu_timing_now(),
                         .node = node,
                         .resident = is_resident ? 1 : 0});
}

void StepLog::sample_memory(Index step) {
  if (!is_open_) return;
  const double now = starpu_timing_now();
  const auto nodes = static_cast<int>(starpu_memory_nodes_get_count());
  for (int node = 0; node < nodes; ++node) {
    rt::MemoryBytes bytes;
    for (const Buffers::Buffer& each : buffers_.all())
      if (node == STARPU_MAIN_RAM ? each.has_home : rt::is_allocated(each.handle, node))
        bytes[each.category] += each.bytes;
    for (const MemoryCategory category : kBufferCategories) {
      const auto [last, is_first] = sampled_.try_emplace({node, category}, -1);
      if (step == 0 && last->second == bytes[category]) continue;
      last->second = bytes[category];
      memory_.push_back({.time = now,
                         .node = node,
                         .category = name_of(category),
                         .bytes = bytes[category],
                         .step = step});
    }
  }
}

void StepLog::write(const StepTask& task) const {
  const std::filesystem::path folder = trace::rank_folder(task.trace, 0);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  expect(!error, "--trace {}: cannot create the folder: {}; choose a writable place", task.trace,
         error.message());
  expect(!std::filesystem::exists(folder / trace::kManifestName),
         "--trace {} holds a trace already: choose another folder", task.trace);
  trace::TraceManifest manifest;
  manifest.run = fmt::format("simulated-{}-{}", task.machine, task.policy);
  manifest.program = "simulated_step";
  manifest.policy = task.policy;
  manifest.model = task.model;
  manifest.host = task.machine;
  manifest.processor = "simulated";
  manifest.machine = rt::view_machine();
  manifest.complete = true;
  manifest.first_step = first_;
  manifest.last_step = last_;
  manifest.rows = {
      {trace::Task::kFile, write_rows(folder, tasks_)},
      {trace::Transfer::kFile, write_rows(folder, transfers_)},
      {trace::Memory::kFile, write_rows(folder, memory_)},
      {trace::Span::kFile, write_rows(folder, std::vector<trace::Span>())},
      {trace::UpdatePlacement::kFile, write_rows(folder, placements_)},
      {trace::Communication::kFile, write_rows(folder, std::vector<trace::Communication>())}};
  write_durably(folder / trace::kManifestName, to_json(manifest).dump(2) + "\n");
}

void note_placement(const starpu_task* task, Index params, int node, bool is_resident) {
  if (current_log != nullptr)
    current_log->placed(*static_cast<const Note*>(task->cl_arg), params, node, is_resident);
}

}  // namespace dos::bench
