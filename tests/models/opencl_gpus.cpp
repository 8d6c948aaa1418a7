// SPDX-License-Identifier: Apache-2.0
#include "models/opencl_gpus.hpp"

#include <starpu.h>
#include <starpu_opencl.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "codelets/all.hpp"

namespace dos::test {
namespace {

using Buffers = std::vector<starpu_vector_interface>;

/// Copies of the task's buffers that point into host memory.
Buffers map(cl_command_queue queue, void** buffers, unsigned count) {
  Buffers views;
  for (unsigned i = 0; i < count; ++i) {
    views.push_back(*static_cast<starpu_vector_interface*>(buffers[i]));
    starpu_vector_interface& view = views.back();
    cl_int status = CL_SUCCESS;
    void* address = clEnqueueMapBuffer(queue, reinterpret_cast<cl_mem>(view.dev_handle), CL_TRUE,
                                       CL_MAP_READ | CL_MAP_WRITE, view.offset,
                                       view.nx * view.elemsize, 0, nullptr, nullptr, &status);
    STARPU_ASSERT(status == CL_SUCCESS);
    view.ptr = reinterpret_cast<std::uintptr_t>(address);
  }
  return views;
}

void run_cpu_function(void** buffers, void* argument) {
  starpu_task* task = starpu_task_get_current();
  cl_command_queue queue = nullptr;
  starpu_opencl_get_current_queue(&queue);
  Buffers views = map(queue, buffers, STARPU_TASK_GET_NBUFFERS(task));
  std::vector<void*> pointers;
  for (starpu_vector_interface& view : views) pointers.push_back(&view);
  task->cl->cpu_funcs[0](pointers.data(), argument);
  for (const starpu_vector_interface& view : views)
    clEnqueueUnmapMemObject(queue, reinterpret_cast<cl_mem>(view.dev_handle),
                            reinterpret_cast<void*>(view.ptr), 0, nullptr, nullptr);
  clFinish(queue);
}

/// What has no CUDA implementation.
bool is_for_cpus(std::string_view symbol) {
  return std::ranges::any_of(std::array{"dos.load_tokens.", "dos.pack.", "dos.unpack.",
                                        "dos.take_gradient.", "dos.add_gradient."},
                             [&](const char* prefix) { return symbol.starts_with(prefix); });
}

struct Original {
  starpu_codelet* codelet;
  std::uint32_t where;
  starpu_opencl_func_t opencl;
  char flags;
};

std::vector<Original>& originals() {
  static std::vector<Original> all;
  return all;
}

}  // namespace

OpenclGpus::OpenclGpus() {
  for (const rt::Codelet* codelet : codelets::all_codelets()) {
    starpu_codelet* raw = codelet->raw();
    if (is_for_cpus(raw->name)) continue;
    originals().push_back({raw, raw->where, raw->opencl_funcs[0], raw->opencl_flags[0]});
    const bool is_update = std::string_view(raw->name).starts_with("dos.update.");
    raw->where = is_update ? STARPU_CPU | STARPU_OPENCL : STARPU_OPENCL;
    raw->opencl_funcs[0] = run_cpu_function;
    raw->opencl_flags[0] = 0;
  }
}

OpenclGpus::~OpenclGpus() {
  for (const Original& each : originals()) {
    each.codelet->where = each.where;
    each.codelet->opencl_funcs[0] = each.opencl;
    each.codelet->opencl_flags[0] = each.flags;
  }
  originals().clear();
}

}  // namespace dos::test
