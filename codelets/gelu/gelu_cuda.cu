// SPDX-License-Identifier: Apache-2.0
#include "codelets/gelu/gelu.hpp"

#include "codelets/cuda/exponential.cuh"
#include "codelets/cuda/pack.cuh"

namespace dos::codelets {
namespace {

using namespace cuda;

constexpr float kCubic = 0.044715F;
constexpr float kTwiceRootTwoOverPi = 1.5957691216057308F;
// Beyond it the derivative is 0 or 1 to the last bit that counts: e^-87.
constexpr float kFlat = 10.0F;

// The forms of gelu_cpu.cpp.
template <class T>
struct Forward {
  static constexpr bool kReadsOutput = false;
  __device__ static float of(float x, float /*y*/) {
    const float twice_u = kTwiceRootTwoOverPi * (x + kCubic * x * x * x);
    return quotient<T>(x, 1.0F + exponential<T>(-twice_u));
  }
};

template <class T>
struct Backward {
  static constexpr bool kReadsOutput = true;
  __device__ static float of(float x, float dy) {
    const float above = x < -kFlat ? -kFlat : x;
    const float z = kFlat < above ? kFlat : above;
    const float twice_u = kTwiceRootTwoOverPi * (z + kCubic * z * z * z);
    const float slope = kTwiceRootTwoOverPi * (1.0F + 3.0F * kCubic * z * z);
    const float e = exponential<T>(-twice_u);
    const float s = quotient<T>(1.0F, 1.0F + e);
    return dy * (s + z * s * (e * s) * slope + (x - x));
  }
};

/// y[i] = Op(x[i], y[i]), the first `packed` elements in whole packs.
template <class T, class Op>
__global__ void __launch_bounds__(kThreads) map(Index count, Index packed, const T* x, T* y) {
  const Index thread = global_thread();
  const Index threads = global_threads();
  for (Index i = thread * kPack<T>; i < packed; i += threads * kPack<T>) {
    Pack<T> in;
    Pack<T> out{};
    in.load(x + i);
    if constexpr (Op::kReadsOutput) out.load(y + i);
    out.fill([&](Index k) { return Op::of(in.get(k), out.get(k)); });
    out.store(y + i);
  }
#pragma unroll 1
  for (Index i = packed + thread; i < count; i += threads)
    y[i] = from_float<T>(Op::of(to_float(x[i]), Op::kReadsOutput ? to_float(y[i]) : 0.0F));
}

template <template <class> class Op>
const char* launch(const CudaContext& context, DType type, Index count, const void* x, void* y) {
  if (count == 0) return nullptr;
  return with_element(type, [&]<class T>(T) {
    map<T, Op<T>><<<blocks_for(ceil_div(count, kPack<T>), kThreads), kThreads, 0, context.stream>>>(
        count, packed_elements<T>(count, aligned(x) && aligned(y)), static_cast<const T*>(x),
        static_cast<T*>(y));
    return launch_fault();
  });
}

}  // namespace

const char* gelu_forward_cuda(const CudaContext& context, DType type, Index count, const void* x,
                              void* y) {
  return launch<Forward>(context, type, count, x, y);
}

const char* gelu_backward_cuda(const CudaContext& context, DType type, Index count, const void* x,
                               void* dy) {
  return launch<Backward>(context, type, count, x, dy);
}

}  // namespace dos::codelets
