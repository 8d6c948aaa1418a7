// SPDX-License-Identifier: Apache-2.0
// For a StarPU without OpenCL: there are no devices, so no program is built and no kernel runs.
#include "base/error.hpp"
#include "rt/opencl.hpp"

namespace dos::rt {

struct OpenclPrograms::Built {};

bool has_opencl() {
  return false;
}

std::vector<OpenclDevice> opencl_devices() {
  return {};
}

OpenclPrograms::OpenclPrograms() = default;
OpenclPrograms::~OpenclPrograms() = default;

starpu_opencl_program* OpenclPrograms::find(const Codelet& /*codelet*/) {
  return nullptr;
}

OpenclKernel::OpenclKernel(const TaskView& task) : task_(task) {
  fail("this StarPU was built without OpenCL");
}

OpenclKernel::~OpenclKernel() = default;

void OpenclKernel::add_buffer(Index /*index*/) {}
void OpenclKernel::add_bytes(std::span<const std::byte> /*value*/) {}
void OpenclKernel::run(Index /*items*/) {}

}  // namespace dos::rt
