// SPDX-License-Identifier: Apache-2.0
#include "rt/opencl.hpp"

#include <starpu.h>
#include <starpu_opencl.h>

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "base/error.hpp"
#include "platform/crash_signals.hpp"
#include "rt/codelet.hpp"
#include "rt/task_header.hpp"

namespace dos::rt {
namespace {

// OpenCL 1.2 names it; StarPU's headers ask for those of OpenCL 1.0.
constexpr cl_device_fp_config kCorrectlyRounded = 1U << 7U;

// Several vectors or warps on every device, and one size, as drivers compile kernels for each.
constexpr std::size_t kWorkGroup = 256;

void check(cl_int status, const char* what) {
  expect(status == CL_SUCCESS, "OpenCL: {} failed: {} ({})", what,
         starpu_opencl_error_string(status), status);
}

OpenclDevice describe(int worker) {
  cl_device_id device = nullptr;
  starpu_opencl_get_device(starpu_worker_get_devid(worker), &device);
  std::array<char, 256> name{};
  check(clGetDeviceInfo(device, CL_DEVICE_NAME, name.size() - 1, name.data(), nullptr),
        "reading a device's name");
  cl_device_fp_config config = 0;
  check(clGetDeviceInfo(device, CL_DEVICE_SINGLE_FP_CONFIG, sizeof config, &config, nullptr),
        "reading a device's arithmetic");
  return {.name = name.data(),
          .correctly_rounded = (config & kCorrectlyRounded) != 0,
          .denormals = (config & CL_FP_DENORM) != 0};
}

bool all_round_correctly(const std::vector<OpenclDevice>& devices) {
  return std::all_of(devices.begin(), devices.end(),
                     [](const OpenclDevice& device) { return device.correctly_rounded; });
}

}  // namespace

struct OpenclPrograms::Built {
  const Codelet* codelet;
  starpu_opencl_program program;
};

bool has_opencl() {
  return true;
}

std::vector<OpenclDevice> opencl_devices() {
  std::array<int, STARPU_NMAXWORKERS> workers{};
  const int count = static_cast<int>(starpu_worker_get_ids_by_type(
      STARPU_OPENCL_WORKER, workers.data(), static_cast<int>(workers.size())));
  std::vector<OpenclDevice> devices;
  for (int i = 0; i < count; ++i) devices.push_back(describe(workers[static_cast<std::size_t>(i)]));
  // StarPU builds a program for all devices with the same options.
  const bool correctly_rounded = all_round_correctly(devices);
  for (OpenclDevice& device : devices) device.correctly_rounded = correctly_rounded;
  return devices;
}

OpenclPrograms::OpenclPrograms() : correctly_rounded_(all_round_correctly(opencl_devices())) {}

OpenclPrograms::~OpenclPrograms() {
  for (const auto& each : built_) starpu_opencl_unload_opencl(&each->program);
}

starpu_opencl_program* OpenclPrograms::find(const Codelet& codelet) {
  if (codelet.spec().opencl.text.empty() || starpu_opencl_worker_get_count() == 0) return nullptr;
  for (const auto& each : built_)
    if (each->codelet == &codelet) return &each->program;
  auto built = std::make_unique<Built>(Built{&codelet, {}});
  const int result = starpu_opencl_load_opencl_from_string(
      codelet.spec().opencl.text.c_str(), &built->program,
      correctly_rounded_ ? "-cl-std=CL1.2 -cl-fp32-correctly-rounded-divide-sqrt"
                         : "-cl-std=CL1.2");
  // The compiler inside PoCL has put in its own.
  platform::leave_crashes_to_the_system();
  expect(
      result == 0,
      "codelet {}: its OpenCL program does not build, see the compiler's words above: update the "
      "OpenCL driver, or run without OpenCL workers",
      codelet.symbol());
  built_.push_back(std::move(built));
  return &built_.back()->program;
}

OpenclKernel::OpenclKernel(const TaskView& task) : task_(task) {
  starpu_opencl_program* program = task.header().opencl_program;
  const char* kernel = task.header().record.codelet->spec().opencl.kernel;
  require(program != nullptr, "the task's OpenCL program was built when it was submitted");
  check(starpu_opencl_load_kernel(&kernel_, &queue_, program, kernel,
                                  starpu_worker_get_devid(starpu_worker_get_id())),
        "loading a kernel");
}

OpenclKernel::~OpenclKernel() {
  starpu_opencl_release_kernel(kernel_);
}

void OpenclKernel::add_buffer(Index index) {
  const auto buffer = static_cast<cl_mem>(task_.opencl_memory(index));
  check(clSetKernelArg(kernel_, arguments_++, sizeof buffer, &buffer), "setting a buffer");
}

void OpenclKernel::add_bytes(std::span<const std::byte> value) {
  check(clSetKernelArg(kernel_, arguments_++, value.size(), value.data()), "setting a value");
}

void OpenclKernel::run(Index items) {
  cl_device_id device = nullptr;
  starpu_opencl_get_device(starpu_worker_get_devid(starpu_worker_get_id()), &device);
  std::size_t most = 0;
  check(clGetKernelWorkGroupInfo(kernel_, device, CL_KERNEL_WORK_GROUP_SIZE, sizeof most, &most,
                                 nullptr),
        "asking for the size of a work group");
  const std::size_t group = std::min(kWorkGroup, std::bit_floor(most));
  const std::size_t size = (static_cast<std::size_t>(items) + group - 1) / group * group;
  check(clEnqueueNDRangeKernel(queue_, kernel_, 1, nullptr, &size, &group, 0, nullptr, nullptr),
        "starting a kernel");
}

}  // namespace dos::rt
