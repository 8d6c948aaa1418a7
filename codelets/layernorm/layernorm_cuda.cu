// SPDX-License-Identifier: Apache-2.0
#include "codelets/layernorm/layernorm.hpp"

#include "codelets/cuda/columns.cuh"
#include "codelets/cuda/rows.cuh"

namespace dos::codelets {
namespace {

using namespace cuda;

template <class T, int kGroup>
__global__ void __launch_bounds__(kThreads)
    forward(Rows rows, const T* x, const T* weight, const T* bias, T* y, float* statistics) {
  for_rows<kGroup>(rows, [&](Index t) {
    const RowPart<T, kGroup> in(x + t * rows.width, rows.width, rows.words);
    const auto n = static_cast<float>(rows.width);
    const float mean = sum_row(in, [](float v) { return v; }) / n;
    const float variance = sum_row(in, [=](float v) { return (v - mean) * (v - mean); }) / n;
    const float rstd = 1.0F / sqrtf(variance + kLayerNormEpsilon);
    const auto write = [&](const Pack<T>& pack, Index column) {
      const Index left = rows.width - column;
      Pack<T> w;
      Pack<T> b;
      Pack<T> out;
      w.load(weight + column, left, rows.words);
      b.load(bias + column, left, rows.words);
#pragma unroll
      for (Index k = 0; k < kPack; ++k)
        out.set(k, (pack.get(k) - mean) * rstd * w.get(k) + b.get(k));
      out.store(y + t * rows.width + column, left, rows.words);
    };
    for_packs(
        in, [&](int p) { write(in.kept[p], in.column(p)); },
        [&](Index p) { write(in.wide(p), in.column(p)); });
    if (in.thread == 0) {
      statistics[2 * t] = mean;
      statistics[2 * t + 1] = rstd;
    }
  });
}

template <class T, int kGroup>
__global__ void __launch_bounds__(kThreads)
    backward(Rows rows, const T* x, const T* weight, const float* statistics, const T* dy,
             const T* residual, T* dx) {
  for_rows<kGroup>(rows, [&](Index t) {
    const Index at = t * rows.width;
    const float mean = statistics[2 * t];
    const float rstd = statistics[2 * t + 1];
    const RowPart<T, kGroup> in(x + at, rows.width, rows.words);
    const RowPart<T, kGroup> gradient(dy + at, rows.width, rows.words);
    float sum = 0;
    float projection = 0;
    // Columns that are not there have dy = 0 and add nothing.
    const auto add = [&](const Pack<T>& v, const Pack<T>& g, Index column) {
      Pack<T> w;
      w.load(weight + column, rows.width - column, rows.words);
#pragma unroll
      for (Index k = 0; k < kPack; ++k) {
        const float scaled = w.get(k) * g.get(k);
        sum += scaled;
        projection += scaled * ((v.get(k) - mean) * rstd);
      }
    };
    for_packs(
        in, [&](int p) { add(in.kept[p], gradient.kept[p], in.column(p)); },
        [&](Index p) { add(in.wide(p), gradient.wide(p), in.column(p)); });
    const float offset = reduce_block<kGroup>(sum, Add{}) / static_cast<float>(rows.width);
    const float factor = reduce_block<kGroup>(projection, Add{}) / static_cast<float>(rows.width);
    const auto write = [&](const Pack<T>& v, const Pack<T>& g, Index column) {
      const Index left = rows.width - column;
      Pack<T> w;
      Pack<T> extra{};
      Pack<T> out;
      w.load(weight + column, left, rows.words);
      if (residual != nullptr) extra.load(residual + at + column, left, rows.words);
#pragma unroll
      for (Index k = 0; k < kPack; ++k) {
        const float normalised = (v.get(k) - mean) * rstd;
        out.set(k, rstd * (w.get(k) * g.get(k) - offset - normalised * factor) + extra.get(k));
      }
      out.store(dx + at + column, left, rows.words);
    };
    for_packs(
        in, [&](int p) { write(in.kept[p], gradient.kept[p], in.column(p)); },
        [&](Index p) { write(in.wide(p), gradient.wide(p), in.column(p)); });
  });
}

/// Terms of the gradients of scale and shift, for sum_columns.
template <class T>
struct WeightTerms {
  static constexpr int kSums = 2;
  Index width;
  bool words;
  const T* x;
  const float* statistics;
  const T* dy;

  __device__ __forceinline__ void add(Index row, Index column, Index left,
                                      float (&sums)[kSums][kPack]) const {
    const float mean = statistics[2 * row];
    const float rstd = statistics[2 * row + 1];
    Pack<T> v;
    Pack<T> g;
    v.load(x + row * width + column, left, words);
    g.load(dy + row * width + column, left, words);
#pragma unroll
    for (Index k = 0; k < kPack; ++k) {
      sums[0][k] += g.get(k) * ((v.get(k) - mean) * rstd);
      sums[1][k] += g.get(k);
    }
  }
};

template <class T, class... Arrays>
Rows rows_of(const LayerNormArrays& a, const Arrays*... arrays) {
  const bool words =
      (aligned(arrays) && ...) && aligned(a.x) && rows_stay_aligned(a.width, Index{sizeof(T)});
  return {a.tokens, a.width, words};
}

template <class T>
const T* as(const void* array) {
  return static_cast<const T*>(array);
}

}  // namespace

const char* layernorm_forward_cuda(const CudaContext& context, DType type, const LayerNormArrays& a,
                                   const void* bias, void* y, float* statistics) {
  if (a.tokens == 0 || a.width == 0) return nullptr;
  return with_element(type, [&]<class T>(T) {
    const auto kernel = a.width <= kWidestOfWarp ? &forward<T, kWarp> : &forward<T, kThreads>;
    kernel<<<blocks_for(a.tokens, rows_of_block(a.width)), kThreads, 0, context.stream>>>(
        rows_of<T>(a, a.weight, bias, static_cast<const void*>(y)), as<T>(a.x), as<T>(a.weight),
        as<T>(bias), static_cast<T*>(y), statistics);
    return launch_fault();
  });
}

const char* layernorm_backward_cuda(const CudaContext& context, DType type,
                                    const LayerNormArrays& a, const float* statistics,
                                    const void* dy, const void* residual, void* dx) {
  if (a.tokens == 0 || a.width == 0) return nullptr;
  return with_element(type, [&]<class T>(T) {
    const auto kernel = a.width <= kWidestOfWarp ? &backward<T, kWarp> : &backward<T, kThreads>;
    kernel<<<blocks_for(a.tokens, rows_of_block(a.width)), kThreads, 0, context.stream>>>(
        rows_of<T>(a, a.weight, dy, residual, static_cast<const void*>(dx)), as<T>(a.x),
        as<T>(a.weight), statistics, as<T>(dy), as<T>(residual), static_cast<T*>(dx));
    return launch_fault();
  });
}

const char* layernorm_backward_weight_cuda(const CudaContext& context, DType type, DType gradient,
                                           const LayerNormArrays& a, const float* statistics,
                                           const void* dy, bool accumulate, void* dweight,
                                           void* dbias) {
  return with_element(type, [&]<class T>(T) {
    const WeightTerms<T> terms{a.width, rows_of<T>(a, dy).words, as<T>(a.x), statistics, as<T>(dy)};
    return with_element(gradient, [&]<class G>(G) {
      const ColumnOutputs<2, G> out{{static_cast<G*>(dweight), static_cast<G*>(dbias)}};
      return sum_columns<WeightTerms<T>, G>(context, terms, a.tokens, a.width, accumulate, out);
    });
  });
}

}  // namespace dos::codelets
