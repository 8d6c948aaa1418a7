// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

#include "base/host_device.hpp"
#include "base/types.hpp"
#include "codelets/cuda/context.hpp"
#include "codelets/simd/isa.hpp"

/// Root-mean-square normalisation (Zhang and Sennrich, arXiv 1910.07467) of whole tokens, or of the
/// heads of queries and keys that lie side by side in a row of each token.
namespace dos::codelets {

/// What is normalised: vectors of `width` elements, `vectors` of them side by side in each row.
struct RmsNormShape {
  Index tokens;
  Index width;
  float epsilon;
  Index vectors = 1;  ///< of a token
  Index first = 1;    ///< of them take weight[0 .. width - 1], the others the `width` behind it
  // Elements from the start of one row to the next; 0: rows have no gaps.
  Index x_stride = 0;
  Index y_stride = 0;  ///< of y, dy and dx

  [[nodiscard]] DOS_HD constexpr Index row() const { return vectors * width; }
  [[nodiscard]] DOS_HD constexpr Index stride_of_x() const {
    return x_stride != 0 ? x_stride : row();
  }
  [[nodiscard]] DOS_HD constexpr Index stride_of_y() const {
    return y_stride != 0 ? y_stride : row();
  }
  /// Vectors of numbers that are learned.
  [[nodiscard]] DOS_HD constexpr Index weights() const { return first < vectors ? 2 : 1; }
};

/// y = round(x * rstd) * weight, rstd = 1 / sqrt(mean of x^2 + epsilon), for every vector; rounded
/// to T before the weight and after it. statistics[tokens, vectors] receives rstd. T is the type of
/// activations and working parameters, float or BF16; the rest is FP32. What lies behind the
/// vectors of a row is left alone.
template <simd::Isa, class T>
void rmsnorm_forward_cpu(const RmsNormShape& shape, const T* x, const T* weight, T* y,
                         float* statistics);

/// dx = d(rmsnorm)/dx applied to dy, plus `residual` (the gradient that by-passes the norm, laid
/// out as dx; may be null). dx may be dy.
template <simd::Isa, class T>
void rmsnorm_backward_cpu(const RmsNormShape& shape, const T* x, const T* weight,
                          const float* statistics, const T* dy,
                          const std::type_identity_t<T>* residual, T* dx);

/// dweight[weights(), width] (+)= sum over the vectors of dy * round(x * rstd). G is the type of
/// the gradients of parameters, float or BF16; the sums are FP32.
template <simd::Isa, class T, class G>
void rmsnorm_backward_weight_cpu(const RmsNormShape& shape, const T* x, const float* statistics,
                                 const T* dy, bool accumulate, G* dweight);

/// On a GPU (cuda/context.hpp).
const char* rmsnorm_forward_cuda(const CudaContext& context, DType type, const RmsNormShape& shape,
                                 const void* x, const void* weight, void* y, float* statistics);
const char* rmsnorm_backward_cuda(const CudaContext& context, DType type, const RmsNormShape& shape,
                                  const void* x, const void* weight, const float* statistics,
                                  const void* dy, const void* residual, void* dx);
const char* rmsnorm_backward_weight_cuda(const CudaContext& context, DType type, DType gradient,
                                         const RmsNormShape& shape, const void* x,
                                         const float* statistics, const void* dy, bool accumulate,
                                         void* dweight);

/// to[tokens, row()] = the vectors of from, whose rows are those of y.
template <simd::Isa, class T>
void copy_vectors_cpu(const RmsNormShape& shape, const T* from, T* to);
const char* copy_vectors_cuda(const CudaContext& context, DType type, const RmsNormShape& shape,
                              const void* from, void* to);

}  // namespace dos::codelets
