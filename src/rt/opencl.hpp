// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "rt/task_view.hpp"

struct starpu_opencl_program;
struct _cl_kernel;
struct _cl_command_queue;

namespace dos::rt {

class Codelet;

/// An OpenCL C program and the kernel of it that a codelet runs.
struct OpenclSource {
  std::string text;  ///< empty: none
  const char* kernel = nullptr;
};

/// A device with a worker of the running session, and what its FP32 arithmetic promises.
struct OpenclDevice {
  std::string name;
  bool correctly_rounded;  ///< division and square root, as programs are built here
  bool denormals;          ///< else denormal numbers may be taken for 0
};

/// False when StarPU was built without OpenCL.
bool has_opencl();

/// Devices of the running session's OpenCL workers, in the workers' order.
std::vector<OpenclDevice> opencl_devices();

/// The OpenCL programs of a session's codelets, for all its devices.
class OpenclPrograms {
 public:
  OpenclPrograms();
  OpenclPrograms(const OpenclPrograms&) = delete;
  OpenclPrograms& operator=(const OpenclPrograms&) = delete;
  /// The tasks that use them must be done, and StarPU must still run.
  ~OpenclPrograms();

  /// The codelet's program, built when first asked for; null when it has none or no device needs
  /// it. Throws Error when a device does not build it. One thread calls.
  starpu_opencl_program* find(const Codelet& codelet);

 private:
  struct Built;
  std::vector<std::unique_ptr<Built>> built_;
  bool correctly_rounded_ = false;
};

/// The kernel of the running task on its OpenCL worker: arguments in order, then run(). Every
/// method throws Error when OpenCL refuses.
class OpenclKernel {
 public:
  /// Inside a task of an OpenCL worker only.
  explicit OpenclKernel(const TaskView& task);
  OpenclKernel(const OpenclKernel&) = delete;
  OpenclKernel& operator=(const OpenclKernel&) = delete;
  ~OpenclKernel();

  /// The next argument: buffer `index` of the task.
  void add_buffer(Index index);
  /// The next argument: a value.
  void add_bytes(std::span<const std::byte> value);
  template <class T>
  void add_value(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    add_bytes(std::as_bytes(std::span(&value, 1)));
  }

  /// Submits at least `items` work items, in one dimension, to the worker's queue: whole work
  /// groups, so the kernel must leave out the rest. The task ends when they have.
  void run(Index items);

 private:
  const TaskView& task_;
  _cl_kernel* kernel_ = nullptr;
  _cl_command_queue* queue_ = nullptr;
  unsigned arguments_ = 0;
};

}  // namespace dos::rt
