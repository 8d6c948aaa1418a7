// SPDX-License-Identifier: Apache-2.0
#include "codelets/reduce/reduce.hpp"

#include "codelets/cuda/ordered_sum.hpp"
#include "codelets/cuda/pack.cuh"
#include "codelets/cuda/reduce.cuh"
#include "codelets/reduce/clip_factor.hpp"

namespace dos::codelets {
namespace {

using namespace cuda;

/// Blocks that write a partial sum each.
constexpr Index kMostPartials = 1024;
constexpr Index kPacksOfThread = 4;

template <class T>
__global__ void __launch_bounds__(kThreads)
    partial_sums(Index count, Index packed, const T* x, double* partials) {
  const Index thread = global_thread();
  const Index threads = global_threads();
  double sum = 0;
  for (Index i = thread * kPack<T>; i < packed; i += threads * kPack<T>) {
    Pack<T> pack;
    pack.load(x + i);
#pragma unroll
    for (Index k = 0; k < kPack<T>; ++k) {
      const double value = pack.get(k);
      sum += value * value;
    }
  }
  for (Index i = packed + thread; i < count; i += threads) {
    const double value = to_float(x[i]);
    sum += value * value;
  }
  sum = reduce_block<kThreads>(sum, Add{});
  if (threadIdx.x == 0) partials[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(kThreads)
    total(Index count, const double* partials, double* result) {
  double sum = 0;
  for (Index i = threadIdx.x; i < count; i += kThreads) sum += partials[i];
  sum = reduce_block<kThreads>(sum, Add{});
  if (threadIdx.x == 0) *result = sum;
}

/// Adds a batch to *norm, which then holds a sum; the last one makes it a norm.
__global__ void __launch_bounds__(kMostScalars)
    combine(ScalarAddresses<const double> sums, bool first, bool last, float max_norm,
            float* factor, double* norm) {
  __shared__ double value[kMostScalars];
  const int thread = static_cast<int>(threadIdx.x);
  if (thread < sums.count) value[thread] = *sums.at[thread];
  __syncthreads();
  if (thread != 0) return;
  double sum = first ? 0 : *norm;
  for (int i = 0; i < sums.count; ++i) sum += value[i];
  *norm = sum;
  if (!last) return;
  const ClipResult result = clip_factor(sum, max_norm, *factor);
  *norm = result.norm;
  *factor = result.factor;
}

}  // namespace

const char* sum_of_squares_cuda(const CudaContext& context, DType type, Index count, const void* x,
                                double* sum) {
  auto* partials = static_cast<double*>(context.workspace);
  return with_element(type, [&]<class T>(T) {
    const Index needed = grid_blocks(count, kPacksOfThread * kPack<T> * kThreads, kMostPartials);
    const Index blocks = needed == 0 ? 1 : needed;
    if (blocks * Index{sizeof(double)} > context.workspace_bytes) return kWorkspaceTooSmall;
    partial_sums<<<static_cast<unsigned>(blocks), kThreads, 0, context.stream>>>(
        count, packed_elements<T>(count, aligned(x)), static_cast<const T*>(x), partials);
    total<<<1, kThreads, 0, context.stream>>>(blocks, partials, sum);
    return launch_fault();
  });
}

const char* combine_norm_cuda(const CudaContext& context, std::span<const double* const> sums,
                              float max_norm, float* factor, double* norm) {
  const Index batches = scalar_batches(std::ssize(sums));
  for (Index batch = 0; batch < batches; ++batch)
    combine<<<1, kMostScalars, 0, context.stream>>>(scalar_batch(sums, batch), batch == 0,
                                                    batch + 1 == batches, max_norm, factor, norm);
  return launch_fault();
}

}  // namespace dos::codelets
