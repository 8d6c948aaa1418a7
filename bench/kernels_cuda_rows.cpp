// SPDX-License-Identifier: Apache-2.0
// Kernels over rows: norms, the loss, the tables of embeddings.
#include "codelets/cross_entropy/cross_entropy.hpp"
#include "codelets/embedding/embedding.hpp"
#include "codelets/layernorm/layernorm.hpp"
#include "codelets/linear/linear.hpp"
#include "codelets/rmsnorm/rmsnorm.hpp"
#include "kernels_cuda_cases.hpp"
#include "shape/activation_sets.hpp"

namespace dos::bench {

using namespace codelets;

void KernelCases::add_layernorm() {
  const Index tokens = sizes_.sequences * sizes_.context;
  const Index count = tokens * sizes_.width;
  const double array_bytes = amount(count, size_of(type_));
  const GpuMemory* x = array(count);
  const GpuMemory* y = array(count);
  const GpuMemory* dy = array(count);
  const GpuMemory* residual = array(count);
  const GpuMemory* weight = array(sizes_.width);
  const GpuMemory* bias = array(sizes_.width);
  const GpuMemory* statistics = numbers(2 * tokens, DType::kF32);
  const LayerNormArrays arrays{tokens, sizes_.width, x->get(), weight->get()};
  cases_.push_back({.name = "layernorm_forward",
                    .bytes = 2 * array_bytes,
                    .run =
                        [=, this] {
                          return layernorm_forward_cuda(context_, type_, arrays, bias->get(),
                                                        y->get(), statistics->as<float>());
                        },
                    .output = y});
  cases_.push_back({.name = "layernorm_backward",
                    .bytes = 4 * array_bytes,
                    .run =
                        [=, this] {
                          return layernorm_backward_cuda(context_, type_, arrays,
                                                         statistics->as<float>(), dy->get(),
                                                         residual->get(), y->get());
                        },
                    .output = y});
  cases_.push_back({.name = "layernorm_backward_weight",
                    .bytes = 2 * array_bytes,
                    .run =
                        [=, this] {
                          return layernorm_backward_weight_cuda(context_, type_, type_, arrays,
                                                                statistics->as<float>(), dy->get(),
                                                                false, weight->get(), bias->get());
                        },
                    .output = weight});
  cases_.push_back({.name = "bias_backward",
                    .bytes = array_bytes,
                    .run =
                        [=, this] {
                          return bias_backward_cuda(context_, type_, type_, tokens, sizes_.width,
                                                    dy->get(), false, bias->get());
                        },
                    .output = bias});
}

void KernelCases::add_rmsnorm() {
  const Index tokens = sizes_.sequences * sizes_.context;
  const Index count = tokens * sizes_.width;
  const double array_bytes = amount(count, size_of(type_));
  const GpuMemory* x = array(count);
  const GpuMemory* y = array(count);
  const GpuMemory* dy = array(count);
  const GpuMemory* residual = array(count);
  const GpuMemory* weight = array(sizes_.width);
  const GpuMemory* statistics = numbers(tokens, DType::kF32);
  const RmsNormShape shape{.tokens = tokens, .width = sizes_.width, .epsilon = 1e-5F};
  cases_.push_back({.name = "rmsnorm_forward",
                    .bytes = 2 * array_bytes,
                    .run =
                        [=, this] {
                          return rmsnorm_forward_cuda(context_, type_, shape, x->get(),
                                                      weight->get(), y->get(),
                                                      statistics->as<float>());
                        },
                    .output = y});
  cases_.push_back({.name = "rmsnorm_backward",
                    .bytes = 4 * array_bytes,
                    .run =
                        [=, this] {
                          return rmsnorm_backward_cuda(context_, type_, shape, x->get(),
                                                       weight->get(), statistics->as<float>(),
                                                       dy->get(), residual->get(), y->get());
                        },
                    .output = y});
  cases_.push_back({.name = "rmsnorm_backward_weight",
                    .bytes = 2 * array_bytes,
                    .run =
                        [=, this] {
                          return rmsnorm_backward_weight_cuda(context_, type_, type_, shape,
                                                              x->get(), statistics->as<float>(),
                                                              dy->get(), false, weight->get());
                        },
                    .output = weight});
}

void KernelCases::add_loss() {
  const Index stride = shape::logits_stride(sizes_.vocabulary);
  const GpuMemory* logits = array(sizes_.logit_rows * stride);
  const GpuMemory* tokens = random_tokens();
  const GpuMemory* loss = numbers(2, DType::kF32);
  const CrossEntropyRows rows{0, sizes_.logit_rows, sizes_.context, sizes_.vocabulary, stride};
  cases_.push_back({.name = "cross_entropy_forward_backward",
                    .bytes = 2 * amount(sizes_.logit_rows, sizes_.vocabulary, size_of(type_)),
                    .run =
                        [=, this] {
                          return cross_entropy_forward_backward_cuda(
                              context_, type_, rows, 1.0F, logits->get(),
                              tokens->as<std::int32_t>(), loss->as<double>());
                        },
                    .output = logits});
}

void KernelCases::add_embedding() {
  const EmbeddingShape shape{sizes_.sequences, sizes_.context, sizes_.width};
  const Index count = sizes_.sequences * sizes_.context * sizes_.width;
  const double array_bytes = amount(count, size_of(type_));
  const RowBlocking words{sizes_.vocabulary, sizes_.width, sizes_.vocabulary};
  const RowBlocking positions{sizes_.context, sizes_.width, sizes_.context};
  const GpuMemory* table = array(sizes_.vocabulary * sizes_.width);
  const GpuMemory* position_table = array(sizes_.context * sizes_.width);
  const GpuMemory* y = array(count);
  const GpuMemory* tokens = random_tokens();
  blocks_.push_back(std::make_unique<const void*>(table->get()));
  const RowBlocks<const void> token_blocks{words, blocks_.back().get()};
  blocks_.push_back(std::make_unique<const void*>(position_table->get()));
  const RowBlocks<const void> position_blocks{positions, blocks_.back().get()};
  cases_.push_back({.name = "embedding_forward",
                    .bytes = 2 * array_bytes,
                    .run =
                        [=, this] {
                          return embedding_forward_cuda(context_, type_, shape,
                                                        tokens->as<std::int32_t>(), token_blocks,
                                                        position_blocks, y->get());
                        },
                    .output = y});
  cases_.push_back({.name = "token_embedding_forward",
                    .bytes = 2 * array_bytes,
                    .run =
                        [=, this] {
                          return embedding_forward_cuda(context_, type_, shape,
                                                        tokens->as<std::int32_t>(), token_blocks,
                                                        {}, y->get());
                        },
                    .output = y});
  // Each named row of the table is read and written besides: at most as much again, twice.
  cases_.push_back({.name = "embedding_backward_token",
                    .bytes = 3 * array_bytes,
                    .run =
                        [=, this] {
                          return embedding_backward_token_cuda(context_, type_, type_, shape,
                                                               {0, sizes_.vocabulary},
                                                               tokens->as<std::int32_t>(), y->get(),
                                                               /*accumulate=*/true, table->get());
                        },
                    .output = table});
  cases_.push_back({.name = "embedding_backward_position",
                    .bytes = array_bytes,
                    .run =
                        [=, this] {
                          return embedding_backward_position_cuda(context_, type_, type_, shape,
                                                                  {0, sizes_.context}, y->get(),
                                                                  false, position_table->get());
                        },
                    .output = position_table});
}

}  // namespace dos::bench
