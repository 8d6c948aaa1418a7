// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

namespace dos::test::kernels_cuda_absent_test {
namespace {

TEST(CudaKernel, All) {
  GTEST_SKIP() << "built without nvcc";
}

}  // namespace
}  // namespace dos::test::kernels_cuda_absent_test
