// SPDX-License-Identifier: Apache-2.0
#include "codelets/layernorm/layernorm.hpp"

#include "codelets/cuda/columns.cuh"
#include "codelets/cuda/rows.cuh"

namespace dos::codelets {
namespace {

using namespace cuda;

template <class T, class Kind>
__global__ void __launch_bounds__(kThreads)
    forward(Rows rows, const T* x, const T* weight, const T* bias, T* y, float* statistics) {
  for_rows<Kind>(rows, [&](Index t) {
    const RowPart<T, Kind> in(x + t * rows.width, rows);
    const float mean = in.sum([](float v) { return v; }) * rows.inverse_width;
    const float variance =
        in.sum([=](float v) { return (v - mean) * (v - mean); }) * rows.inverse_width;
    const float rstd = inverse_root<T>(variance + kLayerNormEpsilon);
    in.each([&](Index p) {
      const Pack<T> v = in.pack(p);
      const Pack<T> w = in.constant(weight, p);
      const Pack<T> b = in.constant(bias, p);
      Pack<T> out;
      out.fill([&](Index k) { return (v.get(k) - mean) * rstd * w.get(k) + b.get(k); });
      in.write(out, y + t * rows.width, p);
    });
    if (is_first_of_group<Kind>()) {
      statistics[2 * t] = mean;
      statistics[2 * t + 1] = rstd;
    }
  });
}

template <class T, class Kind>
__global__ void __launch_bounds__(kThreads)
    backward(Rows rows, const T* x, const T* weight, const float* statistics, const T* dy,
             const T* residual, T* dx) {
  for_rows<Kind>(rows, [&](Index t) {
    const Index at = t * rows.width;
    const RowPart<T, Kind> in(x + at, rows);
    const RowPart<T, Kind> gradient(dy + at, rows);
    const RowPart<T, Kind> by_pass(residual == nullptr ? nullptr : residual + at, rows);
    const float mean = statistics[2 * t];
    const float rstd = statistics[2 * t + 1];
    float sum = 0;
    float projection = 0;
    // Columns that are not there have dy = 0 and add nothing.
    in.each([&](Index p) {
      const Pack<T> v = in.pack(p);
      const Pack<T> g = gradient.pack(p);
      const Pack<T> w = in.constant(weight, p);
#pragma unroll
      for (Index k = 0; k < kPack<T>; ++k) {
        const float scaled = w.get(k) * g.get(k);
        sum += scaled;
        projection += scaled * ((v.get(k) - mean) * rstd);
      }
    });
    const float offset = reduce_block<Kind::kGroup>(sum, Add{}) * rows.inverse_width;
    const float factor = reduce_block<Kind::kGroup>(projection, Add{}) * rows.inverse_width;
    in.each([&](Index p) {
      const Pack<T> v = in.pack(p);
      const Pack<T> g = gradient.pack(p);
      const Pack<T> w = in.constant(weight, p);
      const Pack<T> extra = by_pass.pack(p);
      Pack<T> out;
      out.fill([&](Index k) {
        const float normalised = (v.get(k) - mean) * rstd;
        return rstd * (w.get(k) * g.get(k) - offset - normalised * factor) + extra.get(k);
      });
      in.write(out, dx + at, p);
    });
  });
}

/// Terms of the gradients of scale and shift, for sum_columns.
template <class T>
struct WeightTerms {
  using Element = T;
  static constexpr int kSums = 2;
  Index width;
  const T* x;
  const float* statistics;
  const T* dy;

  template <class Read>
  __device__ __forceinline__ void add(Index row, Index column, const Read& read,
                                      float (&sums)[kSums][kPack<T>]) const {
    const Pack<T> v = read(x + row * width + column);
    const Pack<T> g = read(dy + row * width + column);
    const float mean = statistics[2 * row];
    const float rstd = statistics[2 * row + 1];
#pragma unroll
    for (Index k = 0; k < kPack<T>; ++k) {
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
    const Rows rows = rows_of<T>(a, a.weight, bias, static_cast<const void*>(y));
    return with_row_kind<T>(rows, [&]<class Kind>(Kind) {
      forward<T, Kind><<<blocks_for_rows<Kind>(rows), kThreads, 0, context.stream>>>(
          rows, as<T>(a.x), as<T>(a.weight), as<T>(bias), static_cast<T*>(y), statistics);
      return launch_fault();
    });
  });
}

const char* layernorm_backward_cuda(const CudaContext& context, DType type,
                                    const LayerNormArrays& a, const float* statistics,
                                    const void* dy, const void* residual, void* dx) {
  if (a.tokens == 0 || a.width == 0) return nullptr;
  return with_element(type, [&]<class T>(T) {
    const Rows rows = rows_of<T>(a, a.weight, dy, residual, static_cast<const void*>(dx));
    return with_row_kind<T>(rows, [&]<class Kind>(Kind) {
      backward<T, Kind><<<blocks_for_rows<Kind>(rows), kThreads, 0, context.stream>>>(
          rows, as<T>(a.x), as<T>(a.weight), statistics, as<T>(dy), as<T>(residual),
          static_cast<T*>(dx));
      return launch_fault();
    });
  });
}

const char* layernorm_backward_weight_cuda(const CudaContext& context, DType type, DType gradient,
                                           const LayerNormArrays& a, const float* statistics,
                                           const void* dy, bool accumulate, void* dweight,
                                           void* dbias) {
  return with_element(type, [&]<class T>(T) {
    const WeightTerms<T> terms{a.width, as<T>(a.x), statistics, as<T>(dy)};
    const ColumnRows rows{a.tokens, a.width, rows_of<T>(a, dy).words};
    return with_element(gradient, [&]<class G>(G) {
      return sum_columns<G>(context, terms, rows, accumulate,
                            {static_cast<G*>(dweight), static_cast<G*>(dbias)});
    });
  });
}

}  // namespace dos::codelets
