// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <limits>

#include "codelets/cuda_device.hpp"
#include "codelets/kernel_test.hpp"

namespace dos::test {

/// For tests of CUDA kernels, called directly: skipped where there is no device.
class CudaKernel : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda_devices() == 0) GTEST_SKIP() << "no CUDA device";
  }
};

inline constexpr DType kElementTypes[] = {DType::kF32, DType::kBF16};
inline constexpr float kCudaNan = std::numeric_limits<float>::quiet_NaN();

/// Runs a kernel to its end.
inline void expect_done(const char* fault) {
  ASSERT_EQ(fault, nullptr) << fault;
  const char* later = wait_for_cuda();
  ASSERT_EQ(later, nullptr) << later;
}

/// An output of NaNs, which must not matter.
inline Elements unwritten(DType type, Index count, Index shift = 0) {
  return {type, std::vector<float>(static_cast<std::size_t>(count), kCudaNan), shift};
}

/// |got - value| <= magnitude * (factor + one rounding to got's type) + floor.
template <class Bounded>
void expect_rounded(const Elements& got, const Bounded& reference, double factor,
                    double floor = 0) {
  const std::vector<float> values = got.values();
  expect_close(std::span<const float>(values), reference, factor + rounding_of(got.type()), floor);
}

/// An array of host memory with its double; brings the double back.
class Both {
 public:
  explicit Both(Elements& host) : host_(host), gpu_(host) {}
  [[nodiscard]] void* get() const { return gpu_.get(); }
  void bring_back() { gpu_.copy_to(host_.data()); }

 private:
  Elements& host_;
  OnGpu gpu_;
};

}  // namespace dos::test
