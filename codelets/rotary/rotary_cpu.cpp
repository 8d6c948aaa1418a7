// SPDX-License-Identifier: Apache-2.0
#include "codelets/rotary/rotary.hpp"

#include "codelets/simd/elements.hpp"

namespace dos::codelets {
namespace {

constexpr simd::Isa kIsa = simd::Isa::DOS_ISA;
constexpr Index kMostPairs = kLargestRotaryHead / 2;

template <class T>
void turn(Index pairs, const float* __restrict cosines, const float* __restrict sines,
          T* __restrict low, T* __restrict high) {
#pragma omp simd
  for (Index i = 0; i < pairs; ++i) {
    const float a = to_float(low[i]);
    const float b = to_float(high[i]);
    simd::put(low + i, a * cosines[i] - b * sines[i]);
    simd::put(high + i, b * cosines[i] + a * sines[i]);
  }
}

/// Of token number `position`: a sine of the other sign turns back.
void directions(Index pairs, const double* __restrict turns, Index position, float sign,
                float* __restrict cosines, float* __restrict sines) {
#pragma omp simd
  for (Index i = 0; i < pairs; ++i) {
    const Direction to = direction(static_cast<double>(position) * turns[i]);
    cosines[i] = to.cosine;
    sines[i] = sign * to.sine;
  }
}

}  // namespace

template <simd::Isa, class T>
void rotary_cpu(const RotaryShape& shape, T* x) {
  const Index pairs = shape.head_size / 2;
  double turns[kMostPairs];
  float cosines[kMostPairs];
  float sines[kMostPairs];
  for (Index i = 0; i < pairs; ++i) turns[i] = turns_of_pair(shape.speed, i, shape.head_size);
  for (Index t = 0; t < shape.tokens; ++t) {
    directions(pairs, turns, shape.first + t, shape.back ? -1.0F : 1.0F, cosines, sines);
    for (Index sequence = 0; sequence < shape.sequences; ++sequence) {
      T* row = x + (sequence * shape.tokens + t) * shape.stride;
      for (Index head = 0; head < shape.heads; ++head) {
        T* low = row + head * shape.head_size;
        turn(pairs, cosines, sines, low, low + pairs);
      }
    }
  }
}

template void rotary_cpu<kIsa>(const RotaryShape&, float*);
template void rotary_cpu<kIsa>(const RotaryShape&, BF16*);

}  // namespace dos::codelets
