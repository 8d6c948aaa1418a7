// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "codelets/cuda/pack.cuh"
#include "codelets/update/rules/all_rules.hpp"
#include "codelets/update/update.hpp"

namespace dos::codelets {
namespace {

using namespace cuda;

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
  const Index thread = global_thread();
  const Index threads = global_threads();
  for (Index i = thread * kPack; i < packed; i += threads * kPack)
    Update::pack(step, arrays, clip, i);
  for (Index i = packed + thread; i < arrays.count; i += threads)
    Update::element(step, arrays, clip, i);
}

Index packed_of(const UpdateArrays& a) {
  bool all = aligned(a.g) && aligned(a.p) && aligned(a.w);
  for (const float* state : a.states) all = all && aligned(state);
  return packed_elements(a.count, all);
}

unsigned blocks_of(Index count) {
  return blocks_for(ceil_div(count, kPack), kThreads);
}

template <class Rule, class G, class W, int... kStates>
void launch(const void* step, const UpdateArrays& arrays, cudaStream_t stream,
            std::integer_sequence<int, kStates...> /*states*/) {
  kernel<Update<Rule, G, W, kStates...>><<<blocks_of(arrays.count), kThreads, 0, stream>>>(
      *static_cast<const typename Rule::Step*>(step), arrays, packed_of(arrays));
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

const char* update_cuda(const CudaContext& context, const UpdateKind& kind, const StepBytes& step,
                        const UpdateArrays& arrays) {
  if (arrays.count == 0) return nullptr;
  launch_of(kind, AllRules{})(step.bytes, arrays, context.stream);
  return launch_fault();
}

}  // namespace dos::codelets
