// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <utility>

#include "codelets/update/rules/all.hpp"
#include "codelets/update/update_cuda.hpp"

namespace dos::codelets {
namespace {

constexpr int kThreads = 256;
constexpr Index kPack = 8;  // 16 bytes of BF16, twice 16 of FP32
constexpr Index kWord = sizeof(uint4);

/// kPack neighbouring elements, read and written 16 bytes at a time.
template <class T>
struct alignas(16) Pack {
  T at[kPack];

  __device__ __forceinline__ void load(const T* from) {
    static_assert(sizeof(Pack) == kPack * sizeof(T));
    for (Index i = 0; i < Index{sizeof(Pack)} / kWord; ++i)
      reinterpret_cast<uint4*>(at)[i] = reinterpret_cast<const uint4*>(from)[i];
  }
  __device__ __forceinline__ void store(T* to) const {
    for (Index i = 0; i < Index{sizeof(Pack)} / kWord; ++i)
      reinterpret_cast<uint4*>(to)[i] = reinterpret_cast<const uint4*>(at)[i];
  }
};

/// What one thread does for a kind; kStates counts the rule's states: 0, 1, ...
template <class Rule, class G, class W, int... kStates>
struct Update {
  using Step = typename Rule::Step;
  static constexpr bool kHasWorking = sizeof(W) == sizeof(BF16);

  __device__ static void element(const Step& step, const UpdateArrays& a, float clip, Index i) {
    if (clip == clip) {
      const float g = to_float(static_cast<const G*>(a.g)[i]) * clip;
      Rule::element(a.p + i, a.states[kStates] + i..., g, step);
    }
    if constexpr (kHasWorking) a.w[i] = to_bf16(a.p[i]);
  }

  __device__ static void pack(const Step& step, const UpdateArrays& a, float clip, Index i) {
    Pack<float> p;
    p.load(a.p + i);
    if (clip == clip) {
      Pack<G> g;
      Pack<float> states[sizeof...(kStates)];
      g.load(static_cast<const G*>(a.g) + i);
      (states[kStates].load(a.states[kStates] + i), ...);
#pragma unroll
      for (Index k = 0; k < kPack; ++k)
        Rule::element(p.at + k, states[kStates].at + k..., to_float(g.at[k]) * clip, step);
      p.store(a.p + i);
      (states[kStates].store(a.states[kStates] + i), ...);
    }
    if constexpr (kHasWorking) {
      Pack<W> w;
#pragma unroll
      for (Index k = 0; k < kPack; ++k) w.at[k] = to_bf16(p.at[k]);
      w.store(a.w + i);
    }
  }
};

/// Whole packs first; `packed` is a multiple of kPack, 0 when an array is not aligned.
template <class Update>
__global__ void __launch_bounds__(kThreads)
    kernel(const typename Update::Step step, const UpdateArrays arrays, const Index packed) {
  const float clip = *arrays.clip;
  const Index thread = Index{blockIdx.x} * blockDim.x + threadIdx.x;
  const Index threads = Index{gridDim.x} * blockDim.x;
  for (Index i = thread * kPack; i < packed; i += threads * kPack)
    Update::pack(step, arrays, clip, i);
  for (Index i = packed + thread; i < arrays.count; i += threads)
    Update::element(step, arrays, clip, i);
}

bool aligned(const void* array) {
  return reinterpret_cast<std::uintptr_t>(array) % kWord == 0;
}

Index packed_elements(const UpdateArrays& a) {
  bool all = aligned(a.g) && aligned(a.p) && aligned(a.w);
  for (const float* state : a.states) all = all && aligned(state);
  return all ? a.count / kPack * kPack : 0;
}

/// Blocks that fill the device a few times over; the rest is the grid-stride loop's.
unsigned blocks_for(Index count) {
  constexpr Index kBlocksPerProcessor = 16;
  int device = 0;
  int processors = 1;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
  const Index needed = ceil_div(ceil_div(count, kPack), kThreads);
  const Index most = kBlocksPerProcessor * processors;
  return static_cast<unsigned>(needed < most ? needed : most);
}

template <class Rule, class G, class W, int... kStates>
void launch(const void* step, const UpdateArrays& arrays, cudaStream_t stream,
            std::integer_sequence<int, kStates...> /*states*/) {
  kernel<Update<Rule, G, W, kStates...>><<<blocks_for(arrays.count), kThreads, 0, stream>>>(
      *static_cast<const typename Rule::Step*>(step), arrays, packed_elements(arrays));
}

using Launch = void (*)(const void* step, const UpdateArrays& arrays, cudaStream_t stream);

template <class Rule, class G, class W>
void launch(const void* step, const UpdateArrays& arrays, cudaStream_t stream) {
  launch<Rule, G, W>(step, arrays, stream, std::make_integer_sequence<int, kStatesOf<Rule>>{});
}

template <class... Rules>
Launch launch_of(const UpdateKind& kind, RuleList<Rules...> /*list*/) {
  static constexpr Launch kLaunches[][2][2] = {
      {{&launch<Rules, float, float>, &launch<Rules, float, BF16>},
       {&launch<Rules, BF16, float>, &launch<Rules, BF16, BF16>}}...};
  return kLaunches[kind.rule][kind.gradient == DType::kBF16][kind.working == DType::kBF16];
}

}  // namespace

const char* update_cuda(const UpdateKind& kind, const StepBytes& step, const UpdateArrays& arrays,
                        CUstream_st* stream) {
  if (arrays.count == 0) return nullptr;
  launch_of(kind, AllRules{})(step.bytes, arrays, stream);
  const cudaError_t result = cudaGetLastError();
  return result == cudaSuccess ? nullptr : cudaGetErrorString(result);
}

}  // namespace dos::codelets
