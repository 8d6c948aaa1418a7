// SPDX-License-Identifier: Apache-2.0
#include "codelets/cross_entropy/cross_entropy.hpp"

#include <cmath>

#include "base/target.hpp"
#include "codelets/simd/elements.hpp"
#include "codelets/simd/math.hpp"

namespace dos::codelets {
namespace {

constexpr simd::Isa kIsa = simd::Isa::DOS_ISA;
// FP32 sums run over this many terms at most; the sums of the blocks are added in FP64.
constexpr Index kBlock = 1024;

/// As it stands in the batch: not every one counts.
std::int32_t target_of(const CrossEntropyRows& shape, Index row, const std::int32_t* tokens) {
  const Index index = shape.first_row + row;
  const Index sequence = index / shape.context;
  return tokens[sequence * (shape.context + 1) + index % shape.context + 1];
}

Index block_size(Index count, Index first) {
  return count - first < kBlock ? count - first : kBlock;
}

template <class T>
double sum_of_exponentials(Index count, float shift, const T* __restrict x) {
  double total = 0;
  for (Index first = 0; first < count; first += kBlock) {
    const Index last = first + block_size(count, first);
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (Index i = first; i < last; ++i) sum += simd::exponential(to_float(x[i]) - shift);
    total += static_cast<double>(sum);
  }
  return total;
}

double replace_by_exponentials(Index count, float shift, float* x) {
  double total = 0;
  for (Index first = 0; first < count; first += kBlock) {
    total += static_cast<double>(simd::exponentials(block_size(count, first), shift, x + first));
  }
  return total;
}

/// -log softmax of one logit. The difference is exact in FP64, so a sure row loses nothing.
double loss_of(float logit, float largest, double sum) {
  return ::log(sum) - (static_cast<double>(logit) - static_cast<double>(largest));
}

/// x[i] = scale * softmax(x)[i], less scale where i is the target. The exponentials are kept in x.
void put_gradient(Index count, Index target, float scale, float largest, double& loss,
                  float* __restrict x) {
  const float logit = x[target];
  const double sum = replace_by_exponentials(count, largest, x);
  loss += loss_of(logit, largest, sum);
  const auto factor = static_cast<float>(static_cast<double>(scale) / sum);
#pragma omp simd
  for (Index i = 0; i < count; ++i) x[i] *= factor;
  x[target] -= scale;
}

/// The same; x has no room for exponentials in FP32, so they are computed twice.
void put_gradient(Index count, Index target, float scale, float largest, double& loss,
                  BF16* __restrict x) {
  const float logit = to_float(x[target]);
  const double sum = sum_of_exponentials(count, largest, x);
  loss += loss_of(logit, largest, sum);
  const auto factor = static_cast<float>(static_cast<double>(scale) / sum);
#pragma omp simd
  for (Index i = 0; i < count; ++i)
    simd::put(x + i, simd::exponential(to_float(x[i]) - largest) * factor);
  simd::put(x + target, simd::exponential(logit - largest) * factor - scale);
}

}  // namespace

template <simd::Isa, class T>
void cross_entropy_forward_cpu(const CrossEntropyRows& shape, const T* logits,
                               const std::int32_t* tokens, double* loss) {
  for (Index row = 0; row < shape.rows; ++row) {
    const std::int32_t target = target_of(shape, row, tokens);
    if (!is_target(target)) continue;
    const T* x = logits + row * shape.stride;
    const float largest = simd::maximum(shape.vocabulary, x);
    const double sum = sum_of_exponentials(shape.vocabulary, largest, x);
    *loss += loss_of(to_float(x[target]), largest, sum);
  }
}

template <simd::Isa, class T>
void cross_entropy_forward_backward_cpu(const CrossEntropyRows& shape, float scale, T* logits,
                                        const std::int32_t* tokens, double* loss) {
  for (Index row = 0; row < shape.rows; ++row) {
    const std::int32_t target = target_of(shape, row, tokens);
    T* x = logits + row * shape.stride;
    if (!is_target(target)) {
      __builtin_memset(x, 0, sizeof(T) * static_cast<std::size_t>(shape.vocabulary));
      continue;
    }
    const float largest = simd::maximum(shape.vocabulary, x);
    put_gradient(shape.vocabulary, target, scale, largest, *loss, x);
  }
}

template void cross_entropy_forward_cpu<kIsa>(const CrossEntropyRows&, const float*,
                                              const std::int32_t*, double*);
template void cross_entropy_forward_cpu<kIsa>(const CrossEntropyRows&, const BF16*,
                                              const std::int32_t*, double*);
template void cross_entropy_forward_backward_cpu<kIsa>(const CrossEntropyRows&, float, float*,
                                                       const std::int32_t*, double*);
template void cross_entropy_forward_backward_cpu<kIsa>(const CrossEntropyRows&, float, BF16*,
                                                       const std::int32_t*, double*);

}  // namespace dos::codelets
