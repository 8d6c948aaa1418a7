// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/bf16.hpp"

namespace dos::codelets::cuda {

/// e^x for results of type T: correct to an FP32 rounding or two, or, for BF16, fast and off by
/// 2 + 1.2 |x| ulp (CUDA C++ Programming Guide, "Intrinsic Functions"), less than its rounding.
template <class T>
__device__ __forceinline__ float exponential(float x) {
  if constexpr (sizeof(T) == sizeof(BF16))
    return __expf(x);
  else
    return expf(x);
}

}  // namespace dos::codelets::cuda
