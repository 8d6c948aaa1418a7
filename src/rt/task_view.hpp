// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/types.hpp"

namespace dos::rt {

struct TaskHeader;

/// What the implementation of a task sees: its buffers and its arguments. Valid during the task
/// only.
class TaskView {
 public:
  /// `buffers` and `argument` as StarPU hands them to a codelet.
  TaskView(void** buffers, void* argument) : buffers_(buffers), argument_(argument) {}

  /// First element of buffer `index`, on the memory node of the worker.
  template <class T>
  [[nodiscard]] T* pointer(Index index) const {
    return static_cast<T*>(address(index));
  }

  /// Elements of buffer `index`.
  [[nodiscard]] Index count(Index index) const;
  [[nodiscard]] Index buffer_count() const;

  /// The arguments that were submitted.
  template <class Args>
  [[nodiscard]] const Args& args() const {
    return *reinterpret_cast<const Args*>(arguments());
  }

  /// The cl_mem of buffer `index`, for tasks on an OpenCL worker.
  [[nodiscard]] void* opencl_memory(Index index) const;

  /// For this module.
  [[nodiscard]] const TaskHeader& header() const;

  /// Bytes submitted behind the arguments.
  [[nodiscard]] std::span<const std::byte> payload() const;

 private:
  [[nodiscard]] void* address(Index index) const;
  [[nodiscard]] const std::byte* arguments() const;

  void** buffers_;
  void* argument_;
};

}  // namespace dos::rt
