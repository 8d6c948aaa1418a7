// SPDX-License-Identifier: Apache-2.0
#include "codelets/linear/linear.hpp"

#include <cstddef>

#include "codelets/cuda/columns.cuh"
#include "codelets/matrix/gemm_cuda.hpp"

namespace dos::codelets {
namespace {

using namespace cuda;

/// The address of an element; null for an array that is not there.
const void* at(const void* array, DType type, Index element) {
  return array == nullptr ? nullptr
                          : static_cast<const std::byte*>(array) + element * size_of(type);
}
void* at(void* array, DType type, Index element) {
  return static_cast<std::byte*>(array) + element * size_of(type);
}

/// y = bias + residual, for a bias that cuBLAS does not take; residual may be null, and y.
template <class T>
__global__ void __launch_bounds__(kThreads)
    start_with(Index count, Index out, Index stride, const T* bias, const T* residual, T* y) {
  for (Index i = global_thread(); i < count; i += global_threads()) {
    const Index column = i % out;
    const Index at = i / out * stride + column;
    const float before = residual == nullptr ? 0.0F : to_float(residual[at]);
    y[at] = from_float<T>(to_float(bias[column]) + before);
  }
}

template <class T>
struct BiasTerms {
  using Element = T;
  static constexpr int kSums = 1;
  Index width;
  const T* dy;

  template <class Read>
  __device__ __forceinline__ void add(Index row, Index column, const Read& read,
                                      float (&sums)[kSums][kPack<T>]) const {
    const Pack<T> g = read(dy + row * width + column);
#pragma unroll
    for (Index k = 0; k < kPack<T>; ++k) sums[0][k] += g.get(k);
  }
};

/// Rows of several blocks, copied one behind the other into the workspace behind what products use:
/// a sum over all of them reads and writes its result once. That takes reading and writing the
/// rows, which is less where there are more tokens than rows of a block.
class RowsTogether {
 public:
  RowsTogether(const CudaContext& context, DType type, Index columns)
      : context_(context),
        type_(type),
        columns_(columns),
        memory_(at(context.workspace, DType::kBF16,
                   product_workspace(context.workspace_bytes) / size_of(DType::kBF16))),
        most_((context.workspace_bytes - product_workspace(context.workspace_bytes)) /
              (columns * size_of(type))) {}

  /// That there is room for.
  [[nodiscard]] Index most() const { return most_; }
  [[nodiscard]] Index rows() const { return rows_; }

  /// Pre: there is room. `rows` are the piece's.
  void add(const RowPiece& piece, const void* rows) {
    if (rows_ == 0) first_ = piece.first;
    cudaMemcpyAsync(at(memory_, type_, rows_ * columns_), rows,
                    static_cast<std::size_t>(piece.rows * columns_ * size_of(type_)),
                    cudaMemcpyDeviceToDevice, context_.stream);
    rows_ += piece.rows;
  }

  /// multiply(number of the first row, rows, their address), unless there are none; then there are
  /// none.
  template <class Multiply>
  void use(const Multiply& multiply) {
    multiply(first_, rows_, memory_);
    rows_ = 0;
  }

 private:
  const CudaContext& context_;
  DType type_;
  Index columns_;
  void* memory_;
  Index most_;
  Index first_ = 0;
  Index rows_ = 0;
};

}  // namespace

const char* linear_forward_cuda(const CudaContext& context, DType type, Index tokens, const void* x,
                                const RowBlocks<const void>& w, const void* bias,
                                const void* residual, void* y, Index stride, float scale) {
  const Index in = w.blocking.columns;
  const Index out = w.blocking.rows;
  if (tokens == 0 || out == 0) return nullptr;
  bool inside = true;
  for (Index b = 0; b < w.blocking.count(); ++b)
    inside = inside && aligned(at(bias, type, w.blocking.first_row(b)));
  const void* start = residual;
  if (bias != nullptr && !inside) {
    const char* fault = with_element(type, [&]<class T>(T) {
      start_with<<<blocks_for(tokens * out, kThreads), kThreads, 0, context.stream>>>(
          tokens * out, out, stride, static_cast<const T*>(bias), static_cast<const T*>(residual),
          static_cast<T*>(y));
      return launch_fault();
    });
    if (fault != nullptr) return fault;
    start = y;
    bias = nullptr;
  }
  for (Index b = 0; b < w.blocking.count(); ++b) {
    const Index first = w.blocking.first_row(b);
    const CudaProductOutput result{.elements = at(y, type, first),
                                   .type = type,
                                   .stride = stride,
                                   .start = at(start, type, first),
                                   .bias = at(bias, type, first),
                                   .scale = scale};
    if (const char* fault = product_cuda(context, tokens, w.blocking.rows_of(b), in, {x, type, in},
                                         {w.blocks[b], type, in, true}, result))
      return fault;
  }
  return nullptr;
}

const char* linear_backward_data_cuda(const CudaContext& context, DType type, Index tokens,
                                      const void* dy, Index stride, const RowBlocks<const void>& w,
                                      void* dx) {
  return linear_backward_part_cuda(
      context, type, {tokens, 0, w.blocking.rows, w.blocking.columns, stride}, dy, w, {}, dx);
}

const char* linear_add_part_cuda(const CudaContext& context, DType type, const LinearPart& part,
                                 const void* x, const RowBlocks<const void>& w, void* y) {
  const Index in = w.blocking.columns;
  if (part.tokens == 0) return nullptr;
  const char* fault = nullptr;
  for_each_piece(w.blocking, part.first_row, part.rows, [&](const RowPiece& piece) {
    if (fault != nullptr) return;
    void* columns = at(y, type, piece.first);
    const CudaProductOutput result{
        .elements = columns, .type = type, .stride = part.y_stride, .start = columns};
    fault = product_cuda(context, part.tokens, piece.rows, in, {x, type, part.x_stride},
                         {at(w.blocks[piece.block], type, piece.row * in), type, in, true}, result);
  });
  return fault;
}

const char* linear_backward_part_cuda(const CudaContext& context, DType type,
                                      const LinearPart& part, const void* y,
                                      const RowBlocks<const void>& w, const ProductSum& sum,
                                      void* x) {
  const Index in = w.blocking.columns;
  if (part.tokens == 0) return nullptr;
  const char* fault = nullptr;
  const auto multiply = [&](Index first, Index rows, const void* some) {
    if (fault != nullptr || rows == 0) return;
    const CudaProductOutput result{.elements = x,
                                   .type = type,
                                   .stride = part.x_stride,
                                   .start = sum.accumulate || first > 0 ? x : nullptr,
                                   .scale = sum.scale};
    fault = product_cuda(context, part.tokens, in, rows, {at(y, type, first), type, part.y_stride},
                         {some, type, in}, result);
  };
  RowsTogether together(context, type, in);
  for_each_piece(w.blocking, part.first_row, part.rows, [&](const RowPiece& piece) {
    const void* rows = at(w.blocks[piece.block], type, piece.row * in);
    if (piece.rows == part.rows || piece.rows >= part.tokens || piece.rows > together.most()) {
      together.use(multiply);
      multiply(piece.first, piece.rows, rows);
      return;
    }
    if (together.rows() + piece.rows > together.most()) together.use(multiply);
    together.add(piece, rows);
  });
  together.use(multiply);
  return fault != nullptr ? fault : launch_fault();
}

const char* linear_backward_weight_cuda(const CudaContext& context, DType type, DType gradient,
                                        const LinearWeightBlock& block, const void* dy,
                                        const void* x, bool accumulate, void* dw) {
  if (block.rows == 0) return nullptr;
  if (block.tokens == 0) {
    const Index bytes = accumulate ? 0 : block.rows * block.in * size_of(gradient);
    cudaMemsetAsync(dw, 0, static_cast<std::size_t>(bytes), context.stream);
    return launch_fault();
  }
  const CudaProductOutput result{
      .elements = dw, .type = gradient, .stride = block.in, .start = accumulate ? dw : nullptr};
  return product_cuda(context, block.rows, block.in, block.tokens,
                      {at(dy, type, block.first_row), type, block.dy_stride, true},
                      {x, type, block.x_stride}, result);
}

const char* bias_backward_cuda(const CudaContext& context, DType type, DType gradient, Index tokens,
                               Index out, const void* dy, bool accumulate, void* dbias) {
  return with_element(type, [&]<class T>(T) {
    const BiasTerms<T> terms{out, static_cast<const T*>(dy)};
    const ColumnRows rows{tokens, out, aligned(dy) && rows_stay_aligned(out, Index{sizeof(T)})};
    return with_element(gradient, [&]<class G>(G) {
      return sum_columns<G>(context, terms, rows, accumulate, {static_cast<G*>(dbias)});
    });
  });
}

}  // namespace dos::codelets
