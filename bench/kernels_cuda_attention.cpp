// SPDX-License-Identifier: Apache-2.0
// Attention by this project's kernels and by cuDNN, and what turns its queries and keys.
#include <fmt/format.h>

#include <algorithm>

#include "codelets/attention/attention_batched_cuda.hpp"
#include "codelets/attention/attention_cuda.hpp"
#include "codelets/attention/attention_cudnn.hpp"
#include "codelets/rotary/rotary.hpp"
#include "kernels_cuda_cases.hpp"

namespace dos::bench {

using namespace codelets;

// Flops of the published algorithm: two products over the causal half forward, five backward.
void KernelCases::add_attention() {
  const AttentionShape shape{sizes_.sequences, sizes_.context, sizes_.heads,
                             sizes_.width / sizes_.heads};
  const Index count = sizes_.sequences * sizes_.context * sizes_.width;
  const AttentionArrays arrays{
      .qkv = array(3 * count),
      .out = array(count),
      .logsumexp = numbers(sizes_.sequences * sizes_.heads * sizes_.context, DType::kF32),
      .dout = array(count),
      .dqkv = array(3 * count)};
  add_rotary(shape, arrays.qkv);
  add_tiled_attention("", shape, arrays);
  // As in Llama 3: what is read and written of keys and values is a quarter.
  constexpr Index kShared = 4;
  if (shape.heads % kShared == 0) {
    AttentionShape shared = shape;
    shared.kv_heads = shape.heads / kShared;
    add_tiled_attention(", 4 heads a key", shared, arrays);
  }
  add_batched_attention(shape, arrays);
}

double KernelCases::attention_product(const AttentionShape& shape) {
  return amount(shape.sequences * shape.width(), shape.tokens, shape.tokens + 1);
}

void KernelCases::add_rotary(const AttentionShape& shape, const GpuMemory* qkv) {
  const Index tokens = shape.sequences * shape.tokens;
  const RotaryShape rotary{.sequences = shape.sequences,
                           .tokens = shape.tokens,
                           .heads = 2 * shape.heads,
                           .head_size = shape.head_size,
                           .stride = shape.qkv_width(),
                           .speed = {.theta = 1e4,
                                     .factor = 1,
                                     .low_freq_factor = 1,
                                     .high_freq_factor = 4,
                                     .original_context = 8192},
                           .back = false};
  cases_.push_back({.name = "rotary",
                    .bytes = 4 * amount(tokens, shape.width(), size_of(type_)),
                    .run = [=, this] { return rotary_cuda(context_, type_, rotary, qkv->get()); },
                    .output = qkv});
}

void KernelCases::add_tiled_attention(const std::string& what, const AttentionShape& shape,
                                      const AttentionArrays& arrays) {
  const double product = attention_product(shape);
  cases_.push_back({.name = "attention_forward" + what,
                    .flops = 2 * product,
                    .run =
                        [=, this] {
                          return attention_forward_cuda(context_, type_, shape, arrays.qkv->get(),
                                                        arrays.out->get(),
                                                        arrays.logsumexp->as<float>());
                        },
                    .output = arrays.out});
  cases_.push_back({.name = "attention_backward" + what,
                    .flops = 5 * product,
                    .run =
                        [=, this] {
                          return attention_backward_cuda(context_, type_, shape, arrays.qkv->get(),
                                                         arrays.out->get(),
                                                         arrays.logsumexp->as<float>(),
                                                         arrays.dout->get(), arrays.dqkv->get());
                        },
                    .output = arrays.dqkv});
  if (type_ == DType::kBF16) add_attention_by_cudnn(what, shape, arrays);
}

void KernelCases::add_batched_attention(const AttentionShape& shape,
                                        const AttentionArrays& arrays) {
  const double product = attention_product(shape);
  const GpuMemory* memory =
      numbers(attention_score_bytes(shape) / size_of(DType::kF32), DType::kF32);
  const AttentionScores scores{memory->get(), memory->bytes()};
  cases_.push_back({.name = "attention_forward, batched",
                    .flops = 2 * product,
                    .run =
                        [=, this] {
                          return attention_forward_batched_cuda(
                              context_, type_, shape, arrays.qkv->get(), arrays.out->get(),
                              arrays.logsumexp->as<float>(), scores);
                        },
                    .output = arrays.out});
  cases_.push_back({.name = "attention_backward, batched",
                    .flops = 5 * product,
                    .run =
                        [=, this] {
                          return attention_backward_batched_cuda(
                              context_, type_, shape, arrays.qkv->get(), arrays.out->get(),
                              arrays.logsumexp->as<float>(), arrays.dout->get(), arrays.dqkv->get(),
                              scores);
                        },
                    .output = arrays.dqkv});
}

// What cuDNN takes of attention, with the workspace that training gives it.
void KernelCases::add_attention_by_cudnn(const std::string& what, const AttentionShape& shape,
                                         const AttentionArrays& arrays) {
  CudaContext context = context_;
  const GpuMemory* workspace =
      numbers(std::max(context.workspace_bytes, cudnn_workspace(shape)) / size_of(DType::kF32),
              DType::kF32);
  context.workspace = workspace->get();
  context.workspace_bytes = workspace->bytes();
  const double product = attention_product(shape);
  const auto forward = [=, this] {
    return attention_forward_cudnn(context, type_, shape, arrays.qkv->get(), arrays.out->get(),
                                   arrays.logsumexp->as<float>());
  };
  const auto backward = [=, this] {
    return attention_backward_cudnn(context, type_, shape, arrays.qkv->get(), arrays.out->get(),
                                    arrays.logsumexp->as<float>(), arrays.dout->get(),
                                    arrays.dqkv->get());
  };
  cases_.push_back({.name = "attention_forward, cuDNN" + what,
                    .flops = 2 * product,
                    .run = [=] { return forward().fault; },
                    .output = arrays.out,
                    .is_left_out = [=] { return !forward().taken; }});
  cases_.push_back({.name = "attention_backward, cuDNN" + what,
                    .flops = 5 * product,
                    .run = [=] { return backward().fault; },
                    .output = arrays.dqkv,
                    .is_left_out = [=] { return !backward().taken; }});
  // Work space that holds fewer heads at a time.
  for (const Index part : {2, 4, 8}) {
    CudaContext less = context;
    less.workspace_bytes /= part;
    if (what.empty() && cudnn_heads_together(shape, less.workspace_bytes) > 0)
      cases_.push_back(
          {.name = fmt::format("attention_backward, cuDNN, 1/{} of the work space", part),
           .flops = 5 * product,
           .run =
               [=, this] {
                 return attention_backward_cudnn(less, type_, shape, arrays.qkv->get(),
                                                 arrays.out->get(), arrays.logsumexp->as<float>(),
                                                 arrays.dout->get(), arrays.dqkv->get())
                     .fault;
               },
           .output = arrays.dqkv,
           .is_left_out = [=] { return !backward().taken; }});
  }
}

}  // namespace dos::bench
