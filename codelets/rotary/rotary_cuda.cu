// SPDX-License-Identifier: Apache-2.0
#include "codelets/cuda/conversion.cuh"
#include "codelets/cuda/kernel_launch.cuh"
#include "codelets/rotary/rotary.hpp"

namespace dos::codelets {
namespace {

using namespace cuda;

/// Turns a token of each pair, computed once a launch.
struct Turns {
  double of_pair[kLargestRotaryHead / 2];
};

/// A thread turns one pair of a token in all heads, with one direction.
template <class T>
__global__ void __launch_bounds__(kThreads) turn(RotaryShape shape, Turns turns, T* x) {
  const Index pairs = shape.head_size / 2;
  const Index rows = shape.sequences * shape.tokens;
  for (Index i = global_thread(); i < rows * pairs; i += global_threads()) {
    const Index pair = i % pairs;
    const Index row = i / pairs;
    const Index position = shape.first + row % shape.tokens;
    const Direction to = direction(static_cast<double>(position) * turns.of_pair[pair]);
    const float sine = shape.back ? -to.sine : to.sine;
    for (Index head = 0; head < shape.heads; ++head) {
      T* low = x + row * shape.stride + head * shape.head_size + pair;
      const float a = to_float(low[0]);
      const float b = to_float(low[pairs]);
      low[0] = from_float<T>(a * to.cosine - b * sine);
      low[pairs] = from_float<T>(b * to.cosine + a * sine);
    }
  }
}

}  // namespace

const char* rotary_cuda(const CudaContext& context, DType type, const RotaryShape& shape, void* x) {
  const Index pairs = shape.head_size / 2;
  const Index items = shape.sequences * shape.tokens * pairs;
  if (items == 0 || shape.heads == 0) return nullptr;
  Turns turns{};
  for (Index i = 0; i < pairs; ++i)
    turns.of_pair[i] = turns_of_pair(shape.speed, i, shape.head_size);
  return with_element(type, [&]<class T>(T) {
    turn<T><<<blocks_for(items, kThreads), kThreads, 0, context.stream>>>(shape, turns,
                                                                          static_cast<T*>(x));
    return launch_fault();
  });
}

}  // namespace dos::codelets
