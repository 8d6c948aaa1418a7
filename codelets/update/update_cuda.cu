// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "codelets/cuda/pack.cuh"
#include "codelets/update/rules/all_rules.hpp"
#include "codelets/update/update.hpp"

namespace dos::codelets {
namespace {

using namespace cuda;

/// Elements of a group: a word of FP32. Words of a group lie side by side across the threads.
constexpr Index kElements = kPack<float>;
/// Groups that a thread loads before it computes.
constexpr int kGroups = 2;
constexpr Index kOfBlock = kGroups * kThreads * kElements;

/// Blocks that a processor's registers should hold: 1024 threads with 112 bytes each under way, in
/// AdamW. Their 112 KB are three to four times what an H200's memory moves for a processor in 0.8
/// us.
[[maybe_unused]] constexpr int kBlocksOfUpdate = 4;

/// What one thread does for a kind, in place or apart; kStates counts the rule's states: 0, 1, ...
template <bool kApart, class Rule, class G, class W, int... kStates>
struct Update {
  using Step = typename Rule::Step;
  static constexpr bool kHasWorking = sizeof(W) == sizeof(BF16);
  /// Whether nothing is left to do without a number for a factor.
  static constexpr bool kChangesNothing = !kApart && !kHasWorking;

  __device__ static void element(const Step& step, const UpdateArrays& a, float clip, Index i) {
    const float g = to_float(static_cast<const G*>(a.g)[i]) * clip;
    take_old(a, i);
    Rule::element(a.p + i, a.states[kStates] + i..., g, step);
    if constexpr (kHasWorking) a.w[i] = from_float<BF16>(a.p[i]);
  }

  /// The values as they were before, and the working parameters of them.
  __device__ static void keep(const UpdateArrays& a, Index i) {
    take_old(a, i);
    if constexpr (kHasWorking) a.w[i] = from_float<BF16>(a.p[i]);
  }

  struct Group {
    Pack<float> p;
    Pack<G, kElements> g;
    Pack<float> states[sizeof...(kStates)];

    __device__ __forceinline__ void load(const UpdateArrays& a, Index i) {
      p.load((kApart ? a.old_p : a.p) + i);
      g.load(static_cast<const G*>(a.g) + i);
      (states[kStates].load((kApart ? a.old_states : a.states)[kStates] + i), ...);
    }
    __device__ __forceinline__ void update(const Step& step, float clip) {
#pragma unroll
      for (Index k = 0; k < kElements; ++k)
        Rule::element(p.at + k, states[kStates].at + k..., g.get(k) * clip, step);
    }
    __device__ __forceinline__ void store(const UpdateArrays& a, Index i) const {
      p.store(a.p + i);
      (states[kStates].store(a.states[kStates] + i), ...);
      if constexpr (kHasWorking) {
        Pack<BF16, kElements> w;
        w.fill([&](Index k) { return p.get(k); });
        w.store(a.w + i);
      }
    }
  };

 private:
  __device__ static void take_old(const UpdateArrays& a, Index i) {
    if constexpr (!kApart) return;
    a.p[i] = a.old_p[i];
    ((a.states[kStates][i] = a.old_states[kStates][i]), ...);
  }
};

/// Whole words first; `packed` is a multiple of kElements, 0 when an array is not aligned.
template <class Update>
__global__ void __launch_bounds__(kThreads, kBlocksOfUpdate)
    kernel(const typename Update::Step step, const UpdateArrays arrays, const Index packed) {
  const float clip = *arrays.clip;
  const Index thread = global_thread();
  const Index threads = global_threads();
  if (is_nan(clip)) {
    if constexpr (!Update::kChangesNothing)
#pragma unroll 1
      for (Index i = thread; i < arrays.count; i += threads) Update::keep(arrays, i);
    return;
  }
  for (Index i = Index{blockIdx.x} * kOfBlock + threadIdx.x * kElements; i < packed;
       i += Index{gridDim.x} * kOfBlock) {
    const Index second = i + kThreads * kElements;
    typename Update::Group groups[kGroups];
    groups[0].load(arrays, i);
    if (second < packed) groups[1].load(arrays, second);
    groups[0].update(step, clip);
    groups[0].store(arrays, i);
    if (second < packed) {
      groups[1].update(step, clip);
      groups[1].store(arrays, second);
    }
  }
#pragma unroll 1
  for (Index i = packed + thread; i < arrays.count; i += threads)
    Update::element(step, arrays, clip, i);
}

Index packed_of(const UpdateArrays& a) {
  bool all = aligned(a.g) && aligned(a.p) && aligned(a.w) && aligned(a.old_p);
  for (const float* state : a.states) all = all && aligned(state);
  for (const float* state : a.old_states) all = all && aligned(state);
  return packed_elements<float>(a.count, all);
}

unsigned blocks_of(Index count) {
  return blocks_for(count, kOfBlock);
}

template <bool kApart, class Rule, class G, class W, int... kStates>
void launch(const void* step, const UpdateArrays& arrays, cudaStream_t stream,
            std::integer_sequence<int, kStates...> /*states*/) {
  kernel<Update<kApart, Rule, G, W, kStates...>><<<blocks_of(arrays.count), kThreads, 0, stream>>>(
      *static_cast<const typename Rule::Step*>(step), arrays, packed_of(arrays));
}

using Launch = void (*)(const void* step, const UpdateArrays& arrays, cudaStream_t stream);

template <class Rule, class G, class W>
void launch(const void* step, const UpdateArrays& arrays, cudaStream_t stream) {
  constexpr std::make_integer_sequence<int, kStatesOf<Rule>> kStates;
  if (arrays.in_place())
    launch<false, Rule, G, W>(step, arrays, stream, kStates);
  else
    launch<true, Rule, G, W>(step, arrays, stream, kStates);
}

template <class... Rules>
Launch launch_of(const UpdateKind& kind, RuleList<Rules...> /*list*/) {
  static constexpr Launch kLaunches[][2][2] = {
      {{&launch<Rules, float, float>, &launch<Rules, float, BF16>},
       {&launch<Rules, BF16, float>, &launch<Rules, BF16, BF16>}}...};
  return kLaunches[kind.rule][kind.gradient == DType::kBF16][kind.working == DType::kBF16];
}

}  // namespace

const char* update_cuda(const CudaContext& context, const UpdateKind& kind, const StepBytes& step,
                        const UpdateArrays& arrays) {
  if (arrays.count == 0) return nullptr;
  launch_of(kind, AllRules{})(step.bytes, arrays, context.stream);
  return launch_fault();
}

}  // namespace dos::codelets
