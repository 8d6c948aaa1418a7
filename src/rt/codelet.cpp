// SPDX-License-Identifier: Apache-2.0
#include "rt/codelet.hpp"

#include <starpu.h>

#include <cstdlib>
#include <exception>
#include <utility>

#include "base/error.hpp"
#include "base/log.hpp"
#include "rt/idle_naps.hpp"
#include "rt/progress.hpp"
#include "rt/starpu_mode.hpp"
#include "rt/task_header.hpp"

namespace dos::rt {
namespace {

const TaskHeader& header_of(const void* argument) {
  return *static_cast<const TaskHeader*>(argument);
}

std::uint32_t footprint_of(starpu_task* task) {
  return header_of(task->cl_arg).footprint;
}

const char* running_codelet() {
  const starpu_task* task = starpu_task_get_current();
  return task != nullptr && task->cl != nullptr ? task->cl->name : "?";
}

}  // namespace

struct Codelet::Model {
  starpu_perfmodel raw{};
};

Codelet::Codelet(CodeletSpec spec, const Implementations& implementations)
    : spec_(std::move(spec)),
      model_(std::make_unique<Model>()),
      raw_(std::make_unique<starpu_codelet>()) {
  model_->raw.type = STARPU_HISTORY_BASED;
  model_->raw.symbol = symbol();
  model_->raw.footprint = footprint_of;
  starpu_codelet_init(raw_.get());
  raw_->cpu_funcs[0] = implementations.cpu;
  if (implementations.opencl != nullptr && has_opencl()) {
    require(!spec_.opencl.text.empty(), "a codelet for OpenCL has a program");
    raw_->opencl_funcs[0] = implementations.opencl;
    raw_->opencl_flags[0] = STARPU_OPENCL_ASYNC;
  }
  if (implementations.cuda != nullptr && has_cuda()) {
    raw_->cuda_funcs[0] = implementations.cuda;
    raw_->cuda_flags[0] = STARPU_CUDA_ASYNC;
  }
  raw_->name = symbol();
  raw_->model = &model_->raw;
  if (spec_.tail) {
    raw_->nbuffers = STARPU_VARIABLE_NBUFFERS;
    return;
  }
  require(spec_.modes.size() <= STARPU_NMAXBUFS,
          "a codelet without a tail fits StarPU's buffer limit");
  raw_->nbuffers = static_cast<int>(spec_.modes.size());
  for (std::size_t i = 0; i < spec_.modes.size(); ++i) raw_->modes[i] = to_starpu(spec_.modes[i]);
}

Codelet::~Codelet() = default;

Mode Codelet::mode(Index buffer) const {
  const auto index = static_cast<std::size_t>(buffer);
  if (index < spec_.modes.size()) return spec_.modes[index];
  require(spec_.tail.has_value(), "buffer index within the codelet's buffers");
  return *spec_.tail;
}

bool Codelet::runs_on_cuda() const {
  return raw_->cuda_funcs[0] != nullptr;
}

bool Codelet::runs_on_opencl() const {
  return raw_->opencl_funcs[0] != nullptr;
}

void run_guarded(void (*implementation)(const TaskView&), const TaskView& task) noexcept {
  note_start_of_task();
  note_work();
  try {
    implementation(task);
  } catch (const std::exception& error) {
    log::error("codelet {}: {}", running_codelet(), error.what());
    std::abort();
  } catch (...) {
    log::error("codelet {}: exception that is not a std::exception", running_codelet());
    std::abort();
  }
}

void* TaskView::address(Index index) const {
  return reinterpret_cast<void*>(STARPU_VECTOR_GET_PTR(buffers_[index]));
}

void* TaskView::opencl_memory(Index index) const {
  require(STARPU_VECTOR_GET_OFFSET(buffers_[index]) == 0, "vectors are not cut");
  return reinterpret_cast<void*>(STARPU_VECTOR_GET_DEV_HANDLE(buffers_[index]));
}

const TaskHeader& TaskView::header() const {
  return header_of(argument_);
}

Index TaskView::count(Index index) const {
  return STARPU_VECTOR_GET_NX(buffers_[index]);
}

Index TaskView::buffer_count() const {
  return header_of(argument_).buffers;
}

const std::byte* TaskView::arguments() const {
  return static_cast<const std::byte*>(argument_) + sizeof(TaskHeader);
}

std::span<const std::byte> TaskView::payload() const {
  const TaskHeader& header = header_of(argument_);
  const auto* block = static_cast<const std::byte*>(argument_);
  return {block + header.payload_offset, header.bytes - header.payload_offset};
}

}  // namespace dos::rt
