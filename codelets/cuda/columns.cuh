// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codelets/cuda/context.hpp"
#include "codelets/cuda/pack.cuh"

/// Sums over the rows of a matrix, one for each column, in an order that depends on sizes alone:
/// blocks sum parts of the rows, then a second kernel adds up the parts.
namespace dos::codelets::cuda {

/// A block takes kColumnLanes packs of columns, and kRowLanes rows at a time.
inline constexpr int kColumnLanes = 32;
inline constexpr int kRowLanes = kThreads / kColumnLanes;
inline constexpr Index kColumnsOfBlock = kColumnLanes * kPack;

/// partials[part, sum, width]: Terms::add(row, column, left, sums) adds a row's terms of a pack of
/// columns, of which `left` exist, to Terms::kSums sums each.
template <class Terms>
__global__ void __launch_bounds__(kThreads)
    part_columns(Terms terms, Index rows, Index width, float* partials) {
  constexpr int kSums = Terms::kSums;
  __shared__ float of_row_lane[kRowLanes][kSums][kColumnsOfBlock];
  const int column_lane = static_cast<int>(threadIdx.x) % kColumnLanes;
  const int row_lane = static_cast<int>(threadIdx.x) / kColumnLanes;
  const Index column = Index{blockIdx.x} * kColumnsOfBlock + column_lane * kPack;
  const RowsOfPart part = rows_of_part(rows, gridDim.y, blockIdx.y);
  float sums[kSums][kPack] = {};
  if (column < width)
    for (Index row = part.first + row_lane; row < part.first + part.count; row += kRowLanes)
      terms.add(row, column, width - column, sums);
#pragma unroll
  for (int s = 0; s < kSums; ++s)
#pragma unroll
    for (Index k = 0; k < kPack; ++k)
      of_row_lane[row_lane][s][k * kColumnLanes + column_lane] = sums[s][k];
  __syncthreads();
  const Index at = threadIdx.x;  // a column of the block: kThreads == kColumnsOfBlock
  const Index out =
      Index{blockIdx.x} * kColumnsOfBlock + at % kColumnLanes * kPack + at / kColumnLanes;
  if (out >= width) return;
#pragma unroll
  for (int s = 0; s < kSums; ++s) {
    float sum = 0;
    for (int lane = 0; lane < kRowLanes; ++lane) sum += of_row_lane[lane][s][at];
    partials[(Index{blockIdx.y} * kSums + s) * width + out] = sum;
  }
}
static_assert(kThreads == kColumnsOfBlock);

/// out[s][width] (+)= the parts' sums, in order.
template <int kSums, class G>
struct ColumnOutputs {
  G* at[kSums];
};
template <int kSums, class G>
__global__ void __launch_bounds__(kThreads)
    add_parts(ColumnOutputs<kSums, G> out, Index parts, Index width, const float* partials,
              bool accumulate) {
  for (Index i = global_thread(); i < kSums * width; i += global_threads()) {
    float sum = 0;
    // Few threads have work here: loads that do not wait for each other hide their latency.
#pragma unroll 16
    for (Index part = 0; part < parts; ++part) sum += partials[part * kSums * width + i];
    G& to = out.at[i / width][i % width];
    to = from_float<G>(accumulate ? to_float(to) + sum : sum);
  }
}

template <class Terms, class G>
const char* sum_columns(const CudaContext& context, const Terms& terms, Index rows, Index width,
                        bool accumulate, const ColumnOutputs<Terms::kSums, G>& out) {
  if (width == 0) return nullptr;
  constexpr int kSums = Terms::kSums;
  const Index part_bytes = kSums * width * Index{sizeof(float)};
  const Index parts = parts_for(rows, part_bytes, context.workspace_bytes);
  if (parts == 0) return kWorkspaceTooSmall;
  auto* partials = static_cast<float*>(context.workspace);
  const dim3 grid(static_cast<unsigned>(ceil_div(width, kColumnsOfBlock)),
                  static_cast<unsigned>(parts));
  part_columns<<<grid, kThreads, 0, context.stream>>>(terms, rows, width, partials);
  add_parts<kSums, G><<<blocks_for(kSums * width, kThreads), kThreads, 0, context.stream>>>(
      out, parts, width, partials, accumulate);
  return launch_fault();
}

}  // namespace dos::codelets::cuda
