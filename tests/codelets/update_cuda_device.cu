// SPDX-License-Identifier: Apache-2.0
#include "codelets/update_cuda_device.hpp"

#include <cstddef>
#include <vector>

#include "codelets/update/update.hpp"

namespace dos::test {
namespace {

/// Device memory with a copy of host memory.
class Copy {
 public:
  Copy(const void* host, Index bytes, Index offset) : bytes_(static_cast<std::size_t>(bytes)) {
    cudaMalloc(&memory_, static_cast<std::size_t>(bytes + offset) + 1);
    data_ = static_cast<std::byte*>(memory_) + offset;
    cudaMemcpy(data_, host, bytes_, cudaMemcpyHostToDevice);
  }
  Copy(const Copy&) = delete;
  Copy& operator=(const Copy&) = delete;
  ~Copy() { cudaFree(memory_); }

  template <class T>
  T* as() const {
    return static_cast<T*>(static_cast<void*>(data_));
  }
  void to(void* host) const { cudaMemcpy(host, data_, bytes_, cudaMemcpyDeviceToHost); }

 private:
  std::size_t bytes_;
  void* memory_ = nullptr;
  std::byte* data_ = nullptr;
};

}  // namespace

int cuda_devices() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

const char* update_on_gpu(const codelets::UpdateKind& kind, const codelets::StepBytes& step,
                          const codelets::UpdateArrays& host, Index states, Index shift) {
  constexpr Index kSize = sizeof(float);
  const Index n = host.count;
  const Index gradient_size = size_of(kind.gradient);
  const Copy clip(host.clip, kSize, 0);
  const Copy g(host.g, n * gradient_size, shift * gradient_size);
  const Copy p(host.p, n * kSize, shift * kSize);
  const Copy s0(host.states[0], n * kSize, shift * kSize);
  const Copy s1(host.states[states > 1 ? 1 : 0], n * kSize, shift * kSize);
  const Copy s2(host.states[states > 2 ? 2 : 0], n * kSize, shift * kSize);
  const Copy s3(host.states[states > 3 ? 3 : 0], n * kSize, shift * kSize);
  const Copy* const copies[codelets::kMostStates] = {&s0, &s1, &s2, &s3};
  const Index working_size = host.w == nullptr ? 0 : Index{sizeof(BF16)};
  const Copy w(host.w, n * working_size, shift * working_size);

  codelets::UpdateArrays device{};
  device.count = n;
  device.clip = clip.as<const float>();
  device.g = g.as<const void>();
  device.p = p.as<float>();
  for (Index s = 0; s < states; ++s) device.states[s] = copies[s]->as<float>();
  if (host.w != nullptr) device.w = w.as<BF16>();
  if (const char* fault = codelets::update_cuda({}, kind, step, device)) return fault;
  const cudaError_t result = cudaDeviceSynchronize();
  p.to(host.p);
  for (Index s = 0; s < states; ++s) copies[s]->to(host.states[s]);
  if (host.w != nullptr) w.to(host.w);
  return result == cudaSuccess ? nullptr : cudaGetErrorString(result);
}

}  // namespace dos::test
