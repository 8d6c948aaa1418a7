// SPDX-License-Identifier: Apache-2.0
#include "codelets/init/init.hpp"

#include "base/philox.hpp"
#include "codelets/cuda/pack.cuh"

namespace dos::codelets {
namespace {

using namespace cuda;

template <class T>
__global__ void __launch_bounds__(kThreads) fill(Index count, Index packed, T value, T* out) {
  const Index thread = global_thread();
  const Index threads = global_threads();
  Pack<T> pack{};
#pragma unroll
  for (Index k = 0; k < kPack<T>; ++k) pack.put(k, value);
  for (Index i = thread * kPack<T>; i < packed; i += threads * kPack<T>) pack.store(out + i);
  for (Index i = packed + thread; i < count; i += threads) out[i] = value;
}

/// The formula of Philox::normal.
__device__ float normal(std::uint64_t key, std::uint64_t index, std::uint64_t stream) {
  constexpr double kTwoPi = 6.283185307179586;
  const PhiloxWords words = philox_words(key, index / 2, stream);
  const double radius = sqrt(-2.0 * log(1.0 - to_unit(words.at[0], words.at[1])));
  const double angle = kTwoPi * to_unit(words.at[2], words.at[3]);
  return static_cast<float>(radius * (index % 2 == 0 ? cos(angle) : sin(angle)));
}

/// The formula of Philox::uniform, between -1 and 1.
__device__ float between_ones(std::uint64_t key, std::uint64_t index, std::uint64_t stream) {
  const PhiloxWords words = philox_words(key, index / 2, stream);
  const double unit =
      index % 2 == 0 ? to_unit(words.at[0], words.at[1]) : to_unit(words.at[2], words.at[3]);
  return static_cast<float>(2 * unit - 1);
}

template <class T>
__global__ void __launch_bounds__(kThreads) random_numbers(RandomInit init, Index count, T* out) {
  const bool is_normal = init.distribution == Distribution::kNormal;
  for (Index i = global_thread(); i < count; i += global_threads()) {
    const auto index = static_cast<std::uint64_t>(init.first_index + i);
    out[i] = from_float<T>(init.spread * (is_normal ? normal(init.seed, index, init.stream)
                                                    : between_ones(init.seed, index, init.stream)));
  }
}

__global__ void __launch_bounds__(kThreads)
    round_all(Index count, Index packed, const float* x, BF16* out) {
  const Index thread = global_thread();
  const Index threads = global_threads();
  constexpr Index kCount = kPack<float, BF16>;
  for (Index i = thread * kCount; i < packed; i += threads * kCount) {
    Pack<float, kCount> from;
    Pack<BF16, kCount> to;
    from.load(x + i);
    to.fill([&](Index k) { return from.get(k); });
    to.store(out + i);
  }
  for (Index i = packed + thread; i < count; i += threads) out[i] = from_float<BF16>(x[i]);
}

}  // namespace

const char* fill_cuda(const CudaContext& context, DType type, Index count, float value, void* out) {
  if (count == 0) return nullptr;
  return with_element(type, [&]<class T>(T) {
    T element{};
    if constexpr (sizeof(T) == sizeof(BF16))
      element = to_bf16(value);
    else
      element = value;
    fill<<<blocks_for(ceil_div(count, kPack<T>), kThreads), kThreads, 0, context.stream>>>(
        count, packed_elements<T>(count, aligned(out)), element, static_cast<T*>(out));
    return launch_fault();
  });
}

const char* init_random_cuda(const CudaContext& context, DType type, const RandomInit& init,
                             Index count, void* out) {
  if (count == 0) return nullptr;
  return with_element(type, [&]<class T>(T) {
    random_numbers<<<blocks_for(count, kThreads), kThreads, 0, context.stream>>>(
        init, count, static_cast<T*>(out));
    return launch_fault();
  });
}

const char* round_cuda(const CudaContext& context, Index count, const float* x, BF16* out) {
  if (count == 0) return nullptr;
  round_all<<<blocks_for(ceil_div(count, kPack<float>), kThreads), kThreads, 0, context.stream>>>(
      count, packed_elements<float, BF16>(count, aligned(x) && aligned(out)), x, out);
  return launch_fault();
}

}  // namespace dos::codelets
