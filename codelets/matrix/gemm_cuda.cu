// SPDX-License-Identifier: Apache-2.0
#include "codelets/matrix/gemm_cuda.hpp"

#include <cublasLt.h>

#include <cstdint>
#include <utility>

#include "codelets/cuda/kernel_launch.hpp"
#include "codelets/matrix/whole_vectors.hpp"

namespace dos::codelets {
namespace {

cudaDataType_t data_type(DType type) {
  return type == DType::kBF16 ? CUDA_R_16BF : CUDA_R_32F;
}

/// The largest power of two, at most cuBLAS's default of 256, that the addresses of all matrices of
/// a batch are multiples of.
std::uint32_t alignment_of(const void* array, DType type, Index batch_stride) {
  const auto address = reinterpret_cast<std::uintptr_t>(array);
  const auto between = static_cast<std::uintptr_t>(batch_stride * size_of(type));
  std::uint32_t alignment = 256;
  while (address % alignment != 0 || between % alignment != 0) alignment /= 2;
  return alignment;
}
std::uint32_t alignment_of(const CudaMatrix& m) {
  return alignment_of(m.elements, m.type, m.batch_stride);
}

/// Keeps the first thing that went wrong.
class Status {
 public:
  void operator()(cublasStatus_t status) {
    if (first_ == CUBLAS_STATUS_SUCCESS) first_ = status;
  }
  [[nodiscard]] bool good() const { return first_ == CUBLAS_STATUS_SUCCESS; }
  [[nodiscard]] const char* text() const {
    return good() ? nullptr : cublasLtGetStatusString(first_);
  }

 private:
  cublasStatus_t first_ = CUBLAS_STATUS_SUCCESS;
};

/// cuBLAS is column-major: a row-major matrix is its transpose there.
class Layout {
 public:
  Layout(Status& status, DType type, Index rows, Index columns, Index stride, Index batch,
         Index batch_stride) {
    status(cublasLtMatrixLayoutInit(&layout_, data_type(type), static_cast<std::uint64_t>(columns),
                                    static_cast<std::uint64_t>(rows), stride));
    if (batch == 1) return;
    set(status, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<std::int32_t>(batch));
    set(status, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
        static_cast<std::int64_t>(batch_stride));
  }
  [[nodiscard]] cublasLtMatrixLayout_t get() { return &layout_; }

 private:
  template <class V>
  void set(Status& status, cublasLtMatrixLayoutAttribute_t attribute, V value) {
    status(cublasLtMatrixLayoutSetAttribute(&layout_, attribute, &value, sizeof value));
  }
  cublasLtMatrixLayoutOpaque_t layout_;
};

/// out^T = op(b)^T op(a)^T: the factors change places, their transpositions stay.
class Product {
 public:
  Product(Status& status, const CudaMatrix& a, const CudaMatrix& b, const void* bias) {
    status(cublasLtMatmulDescInit(&description_, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    set(status, CUBLASLT_MATMUL_DESC_TRANSA, b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(status, CUBLASLT_MATMUL_DESC_TRANSB, a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    if (bias == nullptr) return;
    set(status, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    set(status, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  }
  [[nodiscard]] cublasLtMatmulDesc_t get() { return &description_; }

 private:
  template <class V>
  void set(Status& status, cublasLtMatmulDescAttributes_t attribute, V value) {
    status(cublasLtMatmulDescSetAttribute(&description_, attribute, &value, sizeof value));
  }
  cublasLtMatmulDescOpaque_t description_;
};

class Preference {
 public:
  Preference(Status& status, const CudaContext& context, const CudaMatrix& a, const CudaMatrix& b,
             const void* start, const CudaProductOutput& out) {
    status(cublasLtMatmulPreferenceInit(&preference_));
    set(status, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
        static_cast<std::uint64_t>(product_workspace(context.workspace_bytes)));
    set(status, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
        static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
    set(status, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(b));
    set(status, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(a));
    set(status, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
        alignment_of(start, out.type, out.batch_stride));
    set(status, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
        alignment_of(out.elements, out.type, out.batch_stride));
  }
  [[nodiscard]] cublasLtMatmulPreference_t get() { return &preference_; }

 private:
  template <class V>
  void set(Status& status, cublasLtMatmulPreferenceAttributes_t attribute, V value) {
    status(cublasLtMatmulPreferenceSetAttribute(&preference_, attribute, &value, sizeof value));
  }
  cublasLtMatmulPreferenceOpaque_t preference_;
};

/// op() of the stored matrix gives rows x columns.
Layout layout_of(Status& status, const CudaMatrix& m, Index rows, Index columns, Index batch) {
  if (m.transposed) std::swap(rows, columns);
  return Layout(status, m.type, rows, columns, m.stride, batch, m.batch_stride);
}

/// One call of cuBLAS.
const char* multiply(const CudaContext& context, Index rows, Index columns, Index inner,
                     const CudaMatrix& a, const CudaMatrix& b, const CudaProductOutput& out,
                     Index batch) {
  Status status;
  const void* start = out.start == nullptr ? out.elements : out.start;
  const float beta = out.start == nullptr ? 0 : 1;
  Product product(status, a, b, out.bias);
  Layout first = layout_of(status, b, inner, columns, batch);
  Layout second = layout_of(status, a, rows, inner, batch);
  Layout result(status, out.type, rows, columns, out.stride, batch, out.batch_stride);
  Preference preference(status, context, a, b, start, out);
  cublasLtMatmulHeuristicResult_t best{};
  int found = 0;
  if (status.good())
    status(cublasLtMatmulAlgoGetHeuristic(context.blas, product.get(), first.get(), second.get(),
                                          result.get(), result.get(), preference.get(), 1, &best,
                                          &found));
  if (status.good() && found == 0) return "cuBLAS has no kernel for this product";
  if (status.good())
    status(cublasLtMatmul(
        context.blas, product.get(), &out.scale, b.elements, first.get(), a.elements, second.get(),
        &beta, start, result.get(), out.elements, result.get(), &best.algo, context.workspace,
        static_cast<std::size_t>(product_workspace(context.workspace_bytes)), context.stream));
  return status.text();
}

}  // namespace

const char* product_cuda(const CudaContext& context, Index rows, Index columns, Index inner,
                         const CudaMatrix& a, const CudaMatrix& b, const CudaProductOutput& out,
                         Index batch) {
  if (batch > INT32_MAX) return "more products at once than cuBLAS takes";
  if (batch != 1) return multiply(context, rows, columns, inner, a, b, out, batch);
  return detail::multiply_whole_vectors(
      rows, columns, inner, a, b, out,
      [&](Index some_rows, Index some_columns, Index some_inner, const CudaMatrix& of_a,
          const CudaMatrix& of_b, const CudaProductOutput& of_out) {
        return multiply(context, some_rows, some_columns, some_inner, of_a, of_b, of_out, 1);
      });
}

}  // namespace dos::codelets
