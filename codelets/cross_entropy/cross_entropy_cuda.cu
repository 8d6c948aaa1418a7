// SPDX-License-Identifier: Apache-2.0
#include "codelets/cross_entropy/cross_entropy.hpp"

#include "base/target.hpp"
#include "codelets/cuda/exponential.cuh"
#include "codelets/cuda/ordered_sum.hpp"
#include "codelets/cuda/pack.cuh"
#include "codelets/cuda/reduce.cuh"

namespace dos::codelets {
namespace {

using namespace cuda;

/// Threads of a row: two rows a processor, whose logits then stay in the second-level cache between
/// the pass that sums and the pass that writes.
constexpr int kRowThreads = 1024;
constexpr float kNothing = -INFINITY;

/// A softmax denominator in the making: the sum of e^(x - largest) over what was added.
struct Denominator {
  float largest = kNothing;
  float sum = 0;
};

/// Two parts of a row. fmaxf passes NaNs over, but they stay in the sums.
template <class T>
struct Join {
  __device__ Denominator operator()(const Denominator& a, const Denominator& b) const {
    const float largest = fmaxf(a.largest, b.largest);
    if (largest == kNothing) return {largest, a.sum + b.sum};
    return {largest, a.sum * exponential<T>(a.largest - largest) +
                         b.sum * exponential<T>(b.largest - largest)};
  }
};

template <class T>
__device__ Denominator join_block(Denominator d) {
  __shared__ Denominator of_warp[kRowThreads / kWarp];
  const Join<T> join;
#pragma unroll
  for (int distance = kWarp / 2; distance > 0; distance /= 2)
    d = join(d, {__shfl_xor_sync(kAllLanes, d.largest, distance),
                 __shfl_xor_sync(kAllLanes, d.sum, distance)});
  __syncthreads();
  if (threadIdx.x % kWarp == 0) of_warp[threadIdx.x / kWarp] = d;
  __syncthreads();
  Denominator total = of_warp[0];
  for (int warp = 1; warp < kRowThreads / kWarp; ++warp) total = join(total, of_warp[warp]);
  return total;
}

/// A row of logits. It may start anywhere, so the elements up to the first word boundary and those
/// after the last one are taken one by one.
template <class T>
struct Row {
  T* x;
  Index head;
  Index packs;
  Index count;

  __device__ Row(T* row, Index vocabulary)
      : x(row),
        head(elements_to_alignment(row, Index{sizeof(T)}, vocabulary)),
        packs((vocabulary - head) / kPack<T>),
        count(vocabulary) {}

  /// one(i) for single elements, pack(i) for the first of a pack; each thread its own.
  template <class One, class Whole>
  __device__ __forceinline__ void each(One&& one, Whole&& pack) const {
    const Index thread = threadIdx.x;
    const Index tail = head + packs * kPack<T>;
    for (Index i = thread; i < head; i += kRowThreads) one(i);
    for (Index p = thread; p < packs; p += kRowThreads) pack(head + p * kPack<T>);
    for (Index i = tail + thread; i < count; i += kRowThreads) one(i);
  }
};

template <class T>
__device__ Denominator denominator_of(const Row<T>& row) {
  Denominator d;
  const auto add = [&](float largest_of_new, auto&& sum_above) {
    const float largest = fmaxf(d.largest, largest_of_new);
    if (largest != d.largest && d.sum != 0) d.sum *= exponential<T>(d.largest - largest);
    d.largest = largest;
    d.sum += sum_above(largest == kNothing ? 0.0F : largest);
  };
  row.each(
      [&](Index i) {
        const float x = to_float(row.x[i]);
        add(x, [&](float largest) { return exponential<T>(x - largest); });
      },
      [&](Index i) {
        Pack<T> pack;
        pack.load(row.x + i);
        float largest_of_pack = kNothing;
#pragma unroll
        for (Index k = 0; k < kPack<T>; ++k) largest_of_pack = fmaxf(largest_of_pack, pack.get(k));
        add(largest_of_pack, [&](float largest) {
          float sum = 0;
#pragma unroll
          for (Index k = 0; k < kPack<T>; ++k) sum += exponential<T>(pack.get(k) - largest);
          return sum;
        });
      });
  return join_block<T>(d);
}

/// As it stands in the batch: not every one counts.
__device__ std::int32_t target_of(const CrossEntropyRows& shape, Index row,
                                  const std::int32_t* tokens) {
  const Index index = shape.first_row + row;
  const Index sequence = index / shape.context;
  return tokens[sequence * (shape.context + 1) + index % shape.context + 1];
}

template <class T>
__device__ void clear(const Row<T>& row) {
  row.each([&](Index i) { row.x[i] = from_float<T>(0); },
           [&](Index i) {
             Pack<T> pack{};
             pack.store(row.x + i);
           });
}

/// One block a row: losses[row], and the gradient in place of the logits.
template <class T, bool kGradient>
__global__ void __launch_bounds__(kRowThreads) rows(CrossEntropyRows shape, float scale, T* logits,
                                                    const std::int32_t* tokens, double* losses) {
  for (Index r = blockIdx.x; r < shape.rows; r += gridDim.x) {
    const Row<T> row(logits + r * shape.stride, shape.vocabulary);
    const std::int32_t target = target_of(shape, r, tokens);
    // The same for the whole block.
    if (!is_target(target)) {
      if (threadIdx.x == 0) losses[r] = 0;
      if constexpr (kGradient) clear(row);
      continue;
    }
    const float logit = to_float(row.x[target]);
    const Denominator d = denominator_of(row);
    // The difference is exact in FP64, so a sure row loses nothing.
    if (threadIdx.x == 0)
      losses[r] = log(static_cast<double>(d.sum)) -
                  (static_cast<double>(logit) - static_cast<double>(d.largest));
    if constexpr (kGradient) {
      const float factor = scale / d.sum;
      const auto gradient = [&](float x, Index i) {
        return exponential<T>(x - d.largest) * factor - (i == target ? scale : 0.0F);
      };
      row.each([&](Index i) { row.x[i] = from_float<T>(gradient(to_float(row.x[i]), i)); },
               [&](Index i) {
                 Pack<T> pack;
                 pack.load(row.x + i);
                 pack.fill([&](Index k) { return gradient(pack.get(k), i + k); });
                 pack.store(row.x + i);
               });
    }
  }
}

__global__ void __launch_bounds__(kThreads)
    add_losses(Index count, const double* losses, double* loss) {
  double sum = 0;
  for (Index i = threadIdx.x; i < count; i += kThreads) sum += losses[i];
  sum = reduce_block<kThreads>(sum, Add{});
  if (threadIdx.x == 0) *loss += sum;
}

/// Adds a batch of losses to *mean and empties them; the last one divides.
__global__ void __launch_bounds__(kMostScalars)
    take_losses(ScalarAddresses<double> losses, bool first, bool last, double targets,
                double* mean) {
  __shared__ double value[kMostScalars];
  const int thread = static_cast<int>(threadIdx.x);
  if (thread < losses.count) {
    value[thread] = *losses.at[thread];
    *losses.at[thread] = 0;
  }
  __syncthreads();
  if (thread != 0) return;
  double sum = first ? 0 : *mean;
  for (int i = 0; i < losses.count; ++i) sum += value[i];
  *mean = last ? sum / targets : sum;
}

template <bool kGradient>
const char* launch(const CudaContext& context, DType type, const CrossEntropyRows& shape,
                   float scale, void* logits, const std::int32_t* tokens, double* loss) {
  if (shape.rows == 0) return nullptr;
  if (shape.rows * Index{sizeof(double)} > context.workspace_bytes) return kWorkspaceTooSmall;
  auto* losses = static_cast<double*>(context.workspace);
  return with_element(type, [&]<class T>(T) {
    rows<T, kGradient><<<blocks_for(shape.rows, 1), kRowThreads, 0, context.stream>>>(
        shape, scale, static_cast<T*>(logits), tokens, losses);
    add_losses<<<1, kThreads, 0, context.stream>>>(shape.rows, losses, loss);
    return launch_fault();
  });
}

}  // namespace

const char* cross_entropy_forward_cuda(const CudaContext& context, DType type,
                                       const CrossEntropyRows& shape, const void* logits,
                                       const std::int32_t* tokens, double* loss) {
  return launch<false>(context, type, shape, 0, const_cast<void*>(logits), tokens, loss);
}

const char* cross_entropy_forward_backward_cuda(const CudaContext& context, DType type,
                                                const CrossEntropyRows& shape, float scale,
                                                void* logits, const std::int32_t* tokens,
                                                double* loss) {
  return launch<true>(context, type, shape, scale, logits, tokens, loss);
}

const char* mean_loss_cuda(const CudaContext& context, std::span<double* const> lane_losses,
                           Index targets, double* mean) {
  const Index batches = scalar_batches(std::ssize(lane_losses));
  for (Index batch = 0; batch < batches; ++batch)
    take_losses<<<1, kMostScalars, 0, context.stream>>>(scalar_batch(lane_losses, batch),
                                                        batch == 0, batch + 1 == batches,
                                                        static_cast<double>(targets), mean);
  return launch_fault();
}

}  // namespace dos::codelets
