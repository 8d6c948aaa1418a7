// SPDX-License-Identifier: Apache-2.0
#include "codelets/swiglu/swiglu.hpp"

#include "codelets/cuda/exponential.cuh"
#include "codelets/cuda/pack.cuh"
#include "codelets/swiglu/silu.hpp"

namespace dos::codelets {
namespace {

using namespace cuda;

struct Rows {
  Index tokens;
  Index hidden;
  Index packs;  ///< of a row of `hidden` elements; the last may be a part of one
  bool words;   ///< every half of every row of every array starts on a word
};

/// f(row, column) for the packs that this thread takes. Two divisions a thread, not one a pack: the
/// next pack is as many rows and packs further as the grid is.
template <class T, class F>
__device__ __forceinline__ void for_packs(const Rows& rows, F&& f) {
  Index row = global_thread() / rows.packs;
  Index pack = global_thread() % rows.packs;
  const Index more_rows = global_threads() / rows.packs;
  const Index more_packs = global_threads() % rows.packs;
  while (row < rows.tokens) {
    f(row, pack * kPack<T>);
    row += more_rows;
    pack += more_packs;
    if (pack >= rows.packs) {
      pack -= rows.packs;
      ++row;
    }
  }
}

template <class T>
__device__ __forceinline__ Silu silu_of(float x) {
  const float e = exponential<T>(-fabsf(x));
  return silu(x, e, quotient<T>(1.0F, 1.0F + e));
}

template <class T>
__global__ void __launch_bounds__(kThreads) forward(Rows rows, const T* x, T* out) {
  for_packs<T>(rows, [&](Index row, Index column) {
    const Index left = rows.hidden - column;
    const T* from = x + 2 * row * rows.hidden + column;
    Pack<T> gate;
    Pack<T> up;
    Pack<T> to;
    gate.load(from, left, rows.words);
    up.load(from + rows.hidden, left, rows.words);
    to.fill([&](Index k) { return silu_of<T>(gate.get(k)).value * up.get(k); });
    to.store(out + row * rows.hidden + column, left, rows.words);
  });
}

template <class T>
__global__ void __launch_bounds__(kThreads) backward(Rows rows, const T* x, const T* dout, T* dx) {
  for_packs<T>(rows, [&](Index row, Index column) {
    const Index left = rows.hidden - column;
    const Index at = 2 * row * rows.hidden + column;
    Pack<T> gate;
    Pack<T> up;
    Pack<T> gradient;
    gate.load(x + at, left, rows.words);
    up.load(x + at + rows.hidden, left, rows.words);
    gradient.load(dout + row * rows.hidden + column, left, rows.words);
    float of_up[kPack<T>];
    gate.fill([&](Index k) {
      const Silu factor = silu_of<T>(gate.get(k));
      const float dy = gradient.get(k);
      of_up[k] = dy * factor.value;
      return dy * up.get(k) * factor.slope;
    });
    up.fill([&](Index k) { return of_up[k]; });
    gate.store(dx + at, left, rows.words);
    up.store(dx + at + rows.hidden, left, rows.words);
  });
}

template <class T, class... Arrays>
Rows rows_of(const SwigluShape& shape, const Arrays*... arrays) {
  return {shape.tokens, shape.hidden, ceil_div(shape.hidden, kPack<T>),
          (aligned(arrays) && ...) && rows_stay_aligned(shape.hidden, Index{sizeof(T)})};
}

template <class T>
unsigned blocks_of(const SwigluShape& shape) {
  return blocks_for(shape.tokens * ceil_div(shape.hidden, kPack<T>), kThreads);
}

}  // namespace

const char* swiglu_forward_cuda(const CudaContext& context, DType type, const SwigluShape& shape,
                                const void* x, void* out) {
  if (shape.tokens == 0 || shape.hidden == 0) return nullptr;
  return with_element(type, [&]<class T>(T) {
    forward<<<blocks_of<T>(shape), kThreads, 0, context.stream>>>(
        rows_of<T>(shape, x, out), static_cast<const T*>(x), static_cast<T*>(out));
    return launch_fault();
  });
}

const char* swiglu_backward_cuda(const CudaContext& context, DType type, const SwigluShape& shape,
                                 const void* x, const void* dout, void* dx) {
  if (shape.tokens == 0 || shape.hidden == 0) return nullptr;
  return with_element(type, [&]<class T>(T) {
    backward<<<blocks_of<T>(shape), kThreads, 0, context.stream>>>(
        rows_of<T>(shape, x, dout, dx), static_cast<const T*>(x), static_cast<const T*>(dout),
        static_cast<T*>(dx));
    return launch_fault();
  });
}

}  // namespace dos::codelets
