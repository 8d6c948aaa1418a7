// SPDX-License-Identifier: Apache-2.0
#include "codelets/attention/attention_batched_cuda.hpp"

#include <math.h>

#include "codelets/attention/attention_tiles.hpp"
#include "codelets/cuda/pack.cuh"
#include "codelets/cuda/reduce.cuh"
#include "codelets/matrix/gemm_cuda.hpp"

namespace dos::codelets {
namespace {

using namespace cuda;
using attention::head_offsets;
using attention::HeadOffsets;

/// Heads of one sequence that are worked on together: of one group, where several share keys and
/// values. Their scores are [heads, queries, stride] in
/// FP32. Weights and gradients take the place of the scores that they come from: row by row, from
/// the start of the row on, in elements of type T.
struct Batch {
  AttentionShape shape;
  Index first;  ///< sequence * heads + head
  Index heads;
  Index stride;
  float scale;
};

struct Max {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

/// The numbers of a row that its token sees: first .. end - 1.
struct Visible {
  Index first;
  Index end;

  __device__ __forceinline__ Visible(const AttentionShape& shape, Index token)
      : first(shape.first_seen(token)), end(token + 1) {}
  __device__ __forceinline__ bool has(Index column) const {
    return column >= first && column < end;
  }
};

/// Scores that a lane takes at a time.
constexpr Index kNumbers = kPack<float>;

/// f(number) for the visible numbers of a row, each in one lane of the warp.
template <class F>
__device__ __forceinline__ void each_visible(const float* row, const Visible& visible, F&& f) {
  for (Index column = threadIdx.x % kWarp * kNumbers; column < visible.end;
       column += kWarp * kNumbers) {
    Pack<float> numbers;
    numbers.load(row + column);
#pragma unroll
    for (Index k = 0; k < kNumbers; ++k)
      if (visible.has(column + k)) f(numbers.at[k]);
  }
}

/// Scores become weights, e^(scale (score - largest)) over their sum, 0 where masked; a warp takes
/// a row at a time. logsumexp: of the first head on.
template <class T>
__global__ void __launch_bounds__(kThreads)
    softmax_kernel(Batch batch, float* scores, float* logsumexp) {
  const Index queries = batch.shape.queries();
  for (Index i = global_thread() / kWarp; i < batch.heads * queries;
       i += global_threads() / kWarp) {
    const Visible visible(batch.shape, batch.shape.first + i % queries);
    float* row = scores + i * batch.stride;
    float largest = -INFINITY;
    each_visible(row, visible, [&](float score) { largest = fmaxf(largest, score); });
    largest = reduce_warp(largest, Max{});
    float sum = 0;
    each_visible(row, visible, [&](float score) { sum += expf((score - largest) * batch.scale); });
    sum = reduce_warp(sum, Add{});
    if (threadIdx.x % kWarp == 0) logsumexp[i] = largest * batch.scale + logf(sum);
    const float inverse = 1.0F / sum;
    for (Index first = 0; first < batch.stride; first += kWarp * kNumbers) {
      const Index column = first + threadIdx.x % kWarp * kNumbers;
      Pack<float> before{};
      Pack<T, kNumbers> weights;
      if (column < visible.end) before.load(row + column);
      weights.fill([&](Index k) {
        return visible.has(column + k) ? expf((before.at[k] - largest) * batch.scale) * inverse : 0;
      });
      // An element is no longer than a number: the warp writes over what it has read.
      __syncwarp();
      if (column < batch.stride) weights.store(reinterpret_cast<T*>(row) + column);
    }
  }
}

/// Scores become weights p again, gradients dp of the weights those of the scores before they were
/// scaled, scale p (dp - delta), with delta the sum of dout * out over the head; both 0 where
/// masked. A warp takes a row at a time.
template <class T>
__global__ void __launch_bounds__(kThreads)
    softmax_backward_kernel(Batch batch, const T* out, const T* dout, const float* logsumexp,
                            float* scores, float* gradients) {
  const Index tokens = batch.shape.tokens;
  for (Index i = global_thread() / kWarp; i < batch.heads * tokens; i += global_threads() / kWarp) {
    const Visible visible(batch.shape, i % tokens);
    const HeadOffsets head = head_offsets(batch.shape, batch.first + i / tokens);
    const Index start = head.out + i % tokens * head.width;
    float delta = 0;
    for (Index k = threadIdx.x % kWarp; k < batch.shape.head_size; k += kWarp)
      delta += to_float(out[start + k]) * to_float(dout[start + k]);
    delta = reduce_warp(delta, Add{});
    for (Index first = 0; first < batch.stride; first += kWarp * kNumbers) {
      const Index column = first + threadIdx.x % kWarp * kNumbers;
      const Index at = i * batch.stride + column;
      Pack<float> score{};
      Pack<float> gradient{};
      Pack<T, kNumbers> weights;
      Pack<T, kNumbers> differences;
      if (column < visible.end) {
        score.load(scores + at);
        gradient.load(gradients + at);
      }
      float of_score[kNumbers] = {};
#pragma unroll
      for (Index k = 0; k < kNumbers; ++k)
        if (visible.has(column + k)) of_score[k] = expf(score.at[k] * batch.scale - logsumexp[i]);
      weights.fill([&](Index k) { return of_score[k]; });
      differences.fill([&](Index k) {
        return visible.has(column + k) ? of_score[k] * (gradient.at[k] - delta) * batch.scale : 0;
      });
      __syncwarp();  // as above
      if (column >= batch.stride) continue;
      weights.store(reinterpret_cast<T*>(scores + i * batch.stride) + column);
      differences.store(reinterpret_cast<T*>(gradients + i * batch.stride) + column);
    }
  }
}

/// The products of a batch.
template <class T>
class Products {
 public:
  Products(const CudaContext& context, const Batch& batch)
      : context_(context), batch_(batch), head_(head_offsets(batch.shape, batch.first)) {}

  /// Which of the three in qkv or dqkv.
  enum Part : Index { kQueries, kKeys, kValues };
  [[nodiscard]] CudaMatrix part(const T* qkv, Part which) const {
    return {qkv + offset(which), kType, head_.stride, false,
            which == kQueries || batch_.shape.group() == 1 ? head_size() : 0};
  }
  [[nodiscard]] CudaMatrix rows(const T* out) const {
    return {out + head_.out, kType, head_.width, false, head_size()};
  }
  /// What has taken the place of scores.
  [[nodiscard]] CudaMatrix square(const float* scores) const {
    constexpr Index kTimes = sizeof(float) / sizeof(T);
    return {scores, kType, kTimes * batch_.stride, false, kTimes * scores_of_head()};
  }
  [[nodiscard]] static CudaMatrix transposed(CudaMatrix matrix) {
    matrix.transposed = true;
    return matrix;
  }

  /// scores[queries, tokens] = a b^T
  const char* to_scores(const CudaMatrix& a, const CudaMatrix& b, float* scores) const {
    return product_cuda(context_, batch_.shape.queries(), batch_.shape.tokens, head_size(), a,
                        transposed(b),
                        {.elements = scores,
                         .type = DType::kF32,
                         .stride = batch_.stride,
                         .batch_stride = scores_of_head()},
                        batch_.heads);
  }
  /// Of each head: [queries, head_size] = a b
  const char* to_rows(const CudaMatrix& a, const CudaMatrix& b, T* out) const {
    return multiply(a, b, out + head_.out + batch_.shape.first * head_.width, head_.width);
  }
  const char* to_part(const CudaMatrix& a, const CudaMatrix& b, T* dqkv, Part which) const {
    T* to = dqkv + offset(which);
    if (which == kQueries || batch_.shape.group() == 1) return multiply(a, b, to, head_.stride);
    // The heads of a group add to what they share, one after the other.
    for (Index head = 0; head < batch_.heads; ++head) {
      const bool adds = head > 0 || batch_.first % batch_.shape.group() != 0;
      const Index tokens = batch_.shape.tokens;
      if (const char* fault = product_cuda(context_, tokens, head_size(), tokens, of_head(a, head),
                                           of_head(b, head),
                                           {.elements = to,
                                            .type = kType,
                                            .stride = head_.stride,
                                            .start = adds ? to : nullptr}))
        return fault;
    }
    return nullptr;
  }

 private:
  static constexpr DType kType = sizeof(T) == sizeof(BF16) ? DType::kBF16 : DType::kF32;
  [[nodiscard]] Index head_size() const { return batch_.shape.head_size; }
  [[nodiscard]] Index offset(Part which) const {
    if (which == kQueries) return head_.query + batch_.shape.first * head_.stride;
    return which == kKeys ? head_.key : head_.value;
  }
  [[nodiscard]] Index scores_of_head() const { return batch_.shape.queries() * batch_.stride; }
  /// The matrix of one head of the batch.
  [[nodiscard]] static CudaMatrix of_head(CudaMatrix matrix, Index head) {
    matrix.elements = static_cast<const T*>(matrix.elements) + head * matrix.batch_stride;
    return matrix;
  }
  const char* multiply(const CudaMatrix& a, const CudaMatrix& b, T* to, Index stride) const {
    return product_cuda(
        context_, batch_.shape.queries(), head_size(), batch_.shape.tokens, a, b,
        {.elements = to, .type = kType, .stride = stride, .batch_stride = head_size()},
        batch_.heads);
  }

  const CudaContext& context_;
  const Batch& batch_;
  HeadOffsets head_;
};

unsigned blocks_of(const Batch& batch) {
  return blocks_for(batch.heads * batch.shape.queries(), kThreads / kWarp);
}

template <class T>
const char* forward(const CudaContext& context, const Batch& batch, const T* qkv, T* out,
                    float* logsumexp, float* scores) {
  using P = Products<T>;
  const P products(context, batch);
  if (const char* fault =
          products.to_scores(products.part(qkv, P::kQueries), products.part(qkv, P::kKeys), scores))
    return fault;
  softmax_kernel<T><<<blocks_of(batch), kThreads, 0, context.stream>>>(
      batch, scores, logsumexp + batch.first * batch.shape.queries());
  if (const char* fault = launch_fault()) return fault;
  return products.to_rows(products.square(scores), products.part(qkv, P::kValues), out);
}

template <class T>
const char* backward(const CudaContext& context, const Batch& batch, const T* qkv, const T* out,
                     const float* logsumexp, const T* dout, T* dqkv, float* scores) {
  using P = Products<T>;
  const P products(context, batch);
  const CudaMatrix q = products.part(qkv, P::kQueries);
  const CudaMatrix k = products.part(qkv, P::kKeys);
  float* gradients = scores + batch.heads * attention_score_count(batch.shape.tokens);
  if (const char* fault = products.to_scores(q, k, scores)) return fault;
  if (const char* fault =
          products.to_scores(products.rows(dout), products.part(qkv, P::kValues), gradients))
    return fault;
  softmax_backward_kernel<T><<<blocks_of(batch), kThreads, 0, context.stream>>>(
      batch, out, dout, logsumexp + batch.first * batch.shape.tokens, scores, gradients);
  if (const char* fault = launch_fault()) return fault;
  const CudaMatrix weights = products.square(scores);
  const CudaMatrix differences = products.square(gradients);
  if (const char* fault =
          products.to_part(P::transposed(weights), products.rows(dout), dqkv, P::kValues))
    return fault;
  if (const char* fault = products.to_part(differences, k, dqkv, P::kQueries)) return fault;
  return products.to_part(P::transposed(differences), q, dqkv, P::kKeys);
}

/// f(batch) for all heads, as many at a time as have room for `matrices` matrices of scores each.
template <class F>
const char* each_batch(const AttentionShape& shape, const AttentionScores& scores, Index matrices,
                       F&& f) {
  if (shape.sequences * shape.tokens * shape.heads * shape.head_size == 0) return nullptr;
  const Index of_head = matrices * attention_score_count(shape.tokens) * Index{sizeof(float)};
  const Index at_a_time = scores.bytes / of_head;
  if (at_a_time == 0) return kWorkspaceTooSmall;
  const float scale = 1.0F / sqrtf(static_cast<float>(shape.head_size));
  const Index together = attention_heads_together(shape);
  for (Index sequence = 0; sequence < shape.sequences; ++sequence)
    for (Index head = 0; head < shape.heads;) {
      const Index left = together - head % together;
      const Batch batch{.shape = shape,
                        .first = sequence * shape.heads + head,
                        .heads = left < at_a_time ? left : at_a_time,
                        .stride = attention_row_stride(shape.tokens),
                        .scale = scale};
      if (const char* fault = f(batch)) return fault;
      head += batch.heads;
    }
  return nullptr;
}

}  // namespace

const char* attention_forward_batched_cuda(const CudaContext& context, DType type,
                                           const AttentionShape& shape, const void* qkv, void* out,
                                           float* logsumexp, const AttentionScores& scores) {
  return with_element(type, [&]<class T>(T) {
    return each_batch(shape, scores, 1, [&](const Batch& batch) {
      return forward(context, batch, static_cast<const T*>(qkv), static_cast<T*>(out), logsumexp,
                     static_cast<float*>(scores.memory));
    });
  });
}

const char* attention_backward_batched_cuda(const CudaContext& context, DType type,
                                            const AttentionShape& shape, const void* qkv,
                                            const void* out, const float* logsumexp,
                                            const void* dout, void* dqkv,
                                            const AttentionScores& scores) {
  return with_element(type, [&]<class T>(T) {
    return each_batch(shape, scores, 2, [&](const Batch& batch) {
      return backward(context, batch, static_cast<const T*>(qkv), static_cast<const T*>(out),
                      logsumexp, static_cast<const T*>(dout), static_cast<T*>(dqkv),
                      static_cast<float*>(scores.memory));
    });
  });
}

}  // namespace dos::codelets
