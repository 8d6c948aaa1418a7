// SPDX-License-Identifier: Apache-2.0
#include "codelets/embedding/embedding.hpp"

#include <climits>

#include "base/target.hpp"
#include "codelets/cuda/pack.cuh"
#include "codelets/cuda/reduce.cuh"
#include "codelets/embedding/table_batches.hpp"

namespace dos::codelets {
namespace {

using namespace cuda;

/// Where the token of activation `index` stands.
__device__ __forceinline__ Index token_index(const EmbeddingShape& shape, Index index) {
  return index / shape.context * (shape.context + 1) + index % shape.context;
}

Index activations(const EmbeddingShape& shape) {
  return shape.sequences * shape.context;
}

/// A warp an activation; those whose rows are in other batches belong to other launches.
template <class T>
__global__ void __launch_bounds__(kThreads)
    forward(EmbeddingShape shape, bool words, const std::int32_t* tokens, TableBatch token_table,
            TableBatch position_table, T* y) {
  const Index count = shape.sequences * shape.context;
  const Index lane = threadIdx.x % kWarp;
  for (Index i = global_thread() / kWarp; i < count; i += global_threads() / kWarp) {
    const T* a = find_row<T>(token_table, token_of(tokens[token_index(shape, i)]), shape.width);
    const bool has_positions = position_table.rows_per_block != 0;
    const T* b = find_row<T>(position_table, shape.first + i % shape.context, shape.width);
    if (a == nullptr || (has_positions && b == nullptr)) continue;
    for (Index column = lane * kPack<T>; column < shape.width; column += kWarp * kPack<T>) {
      const Index left = shape.width - column;
      Pack<T> first;
      Pack<T> second{};
      first.load(a + column, left, words);
      if (has_positions) second.load(b + column, left, words);
      first.fill([&](Index k) { return first.get(k) + second.get(k); });
      first.store(y + i * shape.width + column, left, words);
    }
  }
}

/// The first and the last activation whose token names a row; first > last for none.
struct Span {
  int first;
  int last;
};

__global__ void __launch_bounds__(kThreads) empty_spans(Index rows, Span* spans) {
  for (Index row = global_thread(); row < rows; row += global_threads()) spans[row] = {INT_MAX, -1};
}

__global__ void __launch_bounds__(kThreads)
    find_spans(EmbeddingShape shape, TableBlock block, const std::int32_t* tokens, Span* spans) {
  const Index count = shape.sequences * shape.context;
  for (Index i = global_thread(); i < count; i += global_threads()) {
    const Index row = token_of(tokens[token_index(shape, i)]) - block.first_row;
    if (row < 0 || row >= block.rows) continue;
    atomicMin(&spans[row].first, static_cast<int>(i));
    atomicMax(&spans[row].last, static_cast<int>(i));
  }
}

/// Those of the kThreads activations from `first` on whose token is `token`, in order; returns how
/// many. All threads of the block take part.
__device__ int matches(const EmbeddingShape& shape, const std::int32_t* tokens, std::int32_t token,
                       Index first, Index last, int (&found)[kThreads]) {
  __shared__ int of_warp[kThreads / kWarp];
  const Index i = first + threadIdx.x;
  const bool match = i <= last && token_of(tokens[token_index(shape, i)]) == token;
  const unsigned votes = __ballot_sync(kAllLanes, match);
  const unsigned lane = threadIdx.x % kWarp;
  __syncthreads();
  if (lane == 0) of_warp[threadIdx.x / kWarp] = __popc(votes);
  __syncthreads();
  int before = __popc(votes & ((1U << lane) - 1U));
  int all = 0;
  for (int warp = 0; warp < kThreads / kWarp; ++warp) {
    if (warp < static_cast<int>(threadIdx.x) / kWarp) before += of_warp[warp];
    all += of_warp[warp];
  }
  if (match) found[before] = static_cast<int>(i);
  __syncthreads();
  return all;
}

/// Block (row, strip): adds the activations' gradients, in their order, to a pack of columns each.
template <class T, class G>
__global__ void __launch_bounds__(kThreads)
    backward_token(EmbeddingShape shape, bool words, TableBlock block, const std::int32_t* tokens,
                   const T* dy, const Span* spans, G* dtable) {
  __shared__ int found[kThreads];
  const Index row = blockIdx.x;
  const Span span = spans[row];
  if (span.first > span.last) return;
  const auto token = static_cast<std::int32_t>(block.first_row + row);
  constexpr Index kCount = kPack<T, G>;
  const Index column = (Index{blockIdx.y} * kThreads + threadIdx.x) * kCount;
  const Index left = shape.width - column;
  Pack<G, kCount> table{};
  G* to = dtable + row * shape.width + column;
  if (left > 0) table.load(to, left, words);
  float sum[kCount];
#pragma unroll
  for (Index k = 0; k < kCount; ++k) sum[k] = table.get(k);
  for (Index first = span.first; first <= span.last; first += kThreads) {
    const int count = matches(shape, tokens, token, first, span.last, found);
    for (int m = 0; left > 0 && m < count; ++m) {
      Pack<T, kCount> g;
      g.load(dy + Index{found[m]} * shape.width + column, left, words);
#pragma unroll
      for (Index k = 0; k < kCount; ++k) sum[k] += g.get(k);
    }
  }
  if (left <= 0) return;
  table.fill([&](Index k) { return sum[k]; });
  table.store(to, left, words);
}

template <class T, class G>
__global__ void __launch_bounds__(kThreads)
    backward_position(EmbeddingShape shape, Index packs, bool words, TableBlock block, const T* dy,
                      bool accumulate, G* dtable) {
  constexpr Index kCount = kPack<T, G>;
  for (Index i = global_thread(); i < block.rows * packs; i += global_threads()) {
    const Index row = i / packs;
    const Index column = i % packs * kCount;
    const Index left = shape.width - column;
    const Index position = block.first_row + row;
    Pack<G, kCount> table{};
    G* to = dtable + row * shape.width + column;
    if (accumulate) table.load(to, left, words);
    float sum[kCount];
#pragma unroll
    for (Index k = 0; k < kCount; ++k) sum[k] = table.get(k);
    for (Index s = 0; position < shape.context && s < shape.sequences; ++s) {
      Pack<T, kCount> g;
      g.load(dy + (s * shape.context + position) * shape.width + column, left, words);
#pragma unroll
      for (Index k = 0; k < kCount; ++k) sum[k] += g.get(k);
    }
    table.fill([&](Index k) { return sum[k]; });
    table.store(to, left, words);
  }
}

bool blocks_aligned(const RowBlocks<const void>& table) {
  bool all = true;
  for (Index b = 0; b < table.blocking.count(); ++b) all = all && aligned(table.blocks[b]);
  return all;
}

template <class T, class G = T>
bool in_words(const EmbeddingShape& shape, const void* activations_array, const void* table) {
  return aligned(activations_array) && aligned(table) &&
         rows_stay_aligned(shape.width, Index{sizeof(T)}) &&
         rows_stay_aligned(shape.width, Index{sizeof(G)});
}

template <class T, class G>
const char* launch_backward_token(const CudaContext& context, const EmbeddingShape& shape,
                                  const TableBlock& block, const std::int32_t* tokens, const T* dy,
                                  G* dtable) {
  auto* spans = static_cast<Span*>(context.workspace);
  const dim3 grid(static_cast<unsigned>(block.rows),
                  static_cast<unsigned>(ceil_div(shape.width, kThreads * kPack<T, G>)));
  empty_spans<<<blocks_for(block.rows, kThreads), kThreads, 0, context.stream>>>(block.rows, spans);
  find_spans<<<blocks_for(activations(shape), kThreads), kThreads, 0, context.stream>>>(
      shape, block, tokens, spans);
  backward_token<T, G><<<grid, kThreads, 0, context.stream>>>(
      shape, in_words<T, G>(shape, dy, dtable), block, tokens, dy, spans, dtable);
  return launch_fault();
}

}  // namespace

const char* embedding_forward_cuda(const CudaContext& context, DType type,
                                   const EmbeddingShape& shape, const std::int32_t* tokens,
                                   const RowBlocks<const void>& token_table,
                                   const RowBlocks<const void>& position_table, void* y) {
  if (activations(shape) == 0 || shape.width == 0) return nullptr;
  return with_element(type, [&]<class T>(T) {
    const bool words =
        in_words<T>(shape, y, y) && blocks_aligned(token_table) && blocks_aligned(position_table);
    const Index positions = table_batches(position_table.blocking);
    for (Index t = 0; t < table_batches(token_table.blocking); ++t)
      for (Index p = 0; p == 0 || p < positions; ++p)
        forward<T>
            <<<blocks_for(activations(shape), kThreads / kWarp), kThreads, 0, context.stream>>>(
                shape, words, tokens, table_batch(token_table.blocking, token_table.blocks, t),
                table_batch(position_table.blocking, position_table.blocks, p), static_cast<T*>(y));
    return launch_fault();
  });
}

const char* embedding_backward_token_cuda(const CudaContext& context, DType type, DType gradient,
                                          const EmbeddingShape& shape, const TableBlock& block,
                                          const std::int32_t* tokens, const void* dy,
                                          bool accumulate, void* dtable) {
  if (!accumulate)
    cudaMemsetAsync(dtable, 0,
                    static_cast<std::size_t>(block.rows * shape.width * size_of(gradient)),
                    context.stream);
  if (activations(shape) == 0 || shape.width == 0 || block.rows == 0) return nullptr;
  if (block.rows * Index{sizeof(Span)} > context.workspace_bytes) return kWorkspaceTooSmall;
  if (activations(shape) > INT_MAX) return "more than 2^31 activations in one task";
  return with_element(type, [&]<class T>(T) {
    return with_element(gradient, [&]<class G>(G) {
      return launch_backward_token(context, shape, block, tokens, static_cast<const T*>(dy),
                                   static_cast<G*>(dtable));
    });
  });
}

const char* embedding_backward_position_cuda(const CudaContext& context, DType type, DType gradient,
                                             const EmbeddingShape& shape, const TableBlock& block,
                                             const void* dy, bool accumulate, void* dtable) {
  if (block.rows * shape.width == 0) return nullptr;
  return with_element(type, [&]<class T>(T) {
    return with_element(gradient, [&]<class G>(G) {
      const Index packs = ceil_div(shape.width, kPack<T, G>);
      backward_position<T, G>
          <<<blocks_for(block.rows * packs, kThreads), kThreads, 0, context.stream>>>(
              shape, packs, in_words<T, G>(shape, dy, dtable), block, static_cast<const T*>(dy),
              accumulate, static_cast<G*>(dtable));
      return launch_fault();
    });
  });
}

}  // namespace dos::codelets
