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
template <class T>
inline constexpr Index kColumnsOfBlock = kColumnLanes* kPack<T>;

/// What is summed.
struct ColumnRows {
  Index count;
  Index width;
  bool words;  ///< every row starts on a word, and ends with one
};

/// partials[part, sum, width]: Terms::add(row, column, read, sums) adds a row's terms of a pack of
/// columns to Terms::kSums sums each; it reads arrays of Terms::Element with read(address).
template <bool kWords, class Terms>
__global__ void __launch_bounds__(kThreads)
    part_columns(Terms terms, RowParts parts, Index width, float* partials) {
  using T = typename Terms::Element;
  constexpr int kSums = Terms::kSums;
  __shared__ float of_row_lane[kRowLanes][kSums][kColumnsOfBlock<T>];
  const int column_lane = static_cast<int>(threadIdx.x) % kColumnLanes;
  const int row_lane = static_cast<int>(threadIdx.x) / kColumnLanes;
  const Index column = Index{blockIdx.x} * kColumnsOfBlock<T> + column_lane * kPack<T>;
  const RowsOfPart part = parts.part(blockIdx.y);
  const auto read = [&](const T* from) {
    Pack<T> pack;
    if constexpr (kWords)
      pack.load(from);
    else
      pack.load(from, width - column, false);
    return pack;
  };
  float sums[kSums][kPack<T>] = {};
  if (column < width) {
#pragma unroll 2
    for (Index row = part.first + row_lane; row < part.first + part.count; row += kRowLanes)
      terms.add(row, column, read, sums);
  }
#pragma unroll
  for (int s = 0; s < kSums; ++s)
#pragma unroll
    for (Index k = 0; k < kPack<T>; ++k)
      of_row_lane[row_lane][s][k * kColumnLanes + column_lane] = sums[s][k];
  __syncthreads();
  const Index at = threadIdx.x;  // a column of the block
  const Index out =
      Index{blockIdx.x} * kColumnsOfBlock<T> + at % kColumnLanes * kPack<T> + at / kColumnLanes;
  if (at >= kColumnsOfBlock<T> || out >= width) return;
#pragma unroll
  for (int s = 0; s < kSums; ++s) {
    float sum = 0;
    for (int lane = 0; lane < kRowLanes; ++lane) sum += of_row_lane[lane][s][at];
    partials[(Index{blockIdx.y} * kSums + s) * width + out] = sum;
  }
  static_assert(kColumnsOfBlock<T> <= kThreads);
}

/// out[width] (+)= the parts' sums, in order; the sums of a part start `stride` numbers after those
/// of the one before.
template <class G>
__global__ void __launch_bounds__(kThreads)
    add_parts(G* out, Index parts, Index width, Index stride, const float* partials,
              bool accumulate) {
  for (Index i = global_thread(); i < width; i += global_threads()) {
    const float* from = partials + i;
    float sum = 0;
    // Few threads have work here: loads that do not wait for each other hide their latency.
#pragma unroll 16
    for (Index part = 0; part < parts; ++part, from += stride) sum += *from;
    out[i] = from_float<G>(accumulate ? to_float(out[i]) + sum : sum);
  }
}

/// out[s][width] (+)= the sums, each with a launch of its own.
template <class G, class Terms>
const char* sum_columns(const CudaContext& context, const Terms& terms, const ColumnRows& rows,
                        bool accumulate, G* const (&out)[Terms::kSums]) {
  if (rows.width == 0) return nullptr;
  const Index width = rows.width;
  const Index part_numbers = Terms::kSums * width;
  const Index parts =
      parts_for(rows.count, part_numbers * Index{sizeof(float)}, context.workspace_bytes);
  if (parts == 0) return kWorkspaceTooSmall;
  auto* partials = static_cast<float*>(context.workspace);
  const dim3 grid(static_cast<unsigned>(ceil_div(width, kColumnsOfBlock<typename Terms::Element>)),
                  static_cast<unsigned>(parts));
  const auto kernel = rows.words ? &part_columns<true, Terms> : &part_columns<false, Terms>;
  kernel<<<grid, kThreads, 0, context.stream>>>(terms, RowParts(rows.count, parts), width,
                                                partials);
  for (Index s = 0; s < Terms::kSums; ++s)
    add_parts<G><<<blocks_for(width, kThreads), kThreads, 0, context.stream>>>(
        out[s], parts, width, part_numbers, partials + s * width, accumulate);
  return launch_fault();
}

}  // namespace dos::codelets::cuda
