// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/types.hpp"
#include "codelets/cuda/context.hpp"

/// One GPU for measurements by programs that know no CUDA. What goes wrong throws
/// std::runtime_error.
namespace dos::bench {

/// "NVIDIA H100 80GB HBM3, 132 processors, compute capability 9.0"; throws if there is no GPU.
std::string gpu_name();

/// Whether this process can go on with the GPU: a kernel that leaves its memory makes it useless
/// until the process ends. Waits for what has been started.
bool gpu_is_usable();

/// Uninitialised device memory.
class GpuMemory {
 public:
  explicit GpuMemory(Index bytes);
  GpuMemory(const GpuMemory&) = delete;
  GpuMemory& operator=(const GpuMemory&) = delete;
  ~GpuMemory();

  [[nodiscard]] void* get() const { return memory_; }
  template <class T>
  [[nodiscard]] T* as() const {
    return static_cast<T*>(memory_);
  }
  [[nodiscard]] Index bytes() const { return bytes_; }
  void copy_from(const void* host) const;
  void copy_to(void* host) const;

 private:
  Index bytes_;
  void* memory_ = nullptr;
};

/// A stream with workspace and cuBLAS, and events on it.
class GpuTimer {
 public:
  GpuTimer();
  GpuTimer(const GpuTimer&) = delete;
  GpuTimer& operator=(const GpuTimer&) = delete;
  ~GpuTimer();

  [[nodiscard]] const codelets::CudaContext& context() const;

  /// Milliseconds between events before and after `work`, which starts things on the stream and
  /// returns null or what went wrong. The second-level cache holds none of its data when it starts.
  double milliseconds(const std::function<const char*()>& work);

  /// Copies on the device, asynchronously, on the stream.
  const char* copy(const GpuMemory& from, const GpuMemory& to, Index bytes) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace dos::bench
