// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "codelets/cuda/context.hpp"
#include "codelets/elements.hpp"

/// A GPU for tests that know no CUDA.
namespace dos::test {

/// CUDA devices of this machine; 0 without a driver.
int cuda_devices();

/// The first device's compute capability, 90 for 9.0. Pre: there is one.
int cuda_capability();

/// The first device's default stream, a workspace and cuBLAS.
const codelets::CudaContext& cuda_context();

/// Waits for the device; null, or what went wrong since the last call.
const char* wait_for_cuda();

/// Host memory's double in device memory, `offset` bytes off the allocator's alignment, between two
/// zones that nothing must write to; the destructor checks them.
class OnGpu {
 public:
  OnGpu(const void* host, Index bytes, Index offset = 0);
  explicit OnGpu(const Elements& elements)
      : OnGpu(elements.data(), elements.bytes(), elements.shift() * size_of(elements.type())) {}
  OnGpu(const OnGpu&) = delete;
  OnGpu& operator=(const OnGpu&) = delete;
  ~OnGpu();

  [[nodiscard]] void* get() const { return data_; }
  template <class T>
  [[nodiscard]] T* as() const {
    return static_cast<T*>(data_);
  }
  void copy_to(void* host) const;

 private:
  Index bytes_;
  void* memory_ = nullptr;
  void* data_ = nullptr;
};

}  // namespace dos::test
