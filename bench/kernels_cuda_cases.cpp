// SPDX-License-Identifier: Apache-2.0
#include "kernels_cuda_cases.hpp"

#include <algorithm>
#include <span>
#include <string_view>

#include "base/error.hpp"
#include "base/random.hpp"
#include "codelets/attention/attention_batched_cuda.hpp"
#include "codelets/attention/attention_cuda.hpp"
#include "codelets/attention/attention_cudnn.hpp"
#include "codelets/cross_entropy/cross_entropy.hpp"
#include "codelets/embedding/embedding.hpp"
#include "codelets/gelu/gelu.hpp"
#include "codelets/init/init.hpp"
#include "codelets/layernorm/layernorm.hpp"
#include "codelets/linear/linear.hpp"
#include "codelets/reduce/reduce.hpp"
#include "codelets/swiglu/swiglu.hpp"
#include "codelets/update/rule_info.hpp"
#include "codelets/update/update.hpp"
#include "shape/activations.hpp"

namespace dos::bench {
namespace {

using namespace codelets;

double amount(Index a, Index b = 1, Index c = 1) {
  return static_cast<double>(a) * static_cast<double>(b) * static_cast<double>(c);
}

}  // namespace

KernelCases::KernelCases(const KernelSizes& sizes, DType type, const CudaContext& context)
    : sizes_(sizes), type_(type), context_(context) {
  add_elementwise();
  add_swiglu();
  add_layernorm();
  add_loss();
  add_embedding();
  add_attention();
  add_update();
  add_products();
}

const GpuMemory* KernelCases::numbers(Index count, DType of) {
  arrays_.push_back(std::make_unique<GpuMemory>(count * size_of(of)));
  const RandomInit init{.seed = 1, .stream = arrays_.size(), .first_index = 0, .spread = 1};
  const char* fault = init_random_cuda(context_, of, init, count, arrays_.back()->get());
  expect(fault == nullptr, "random numbers on the GPU: {}", fault == nullptr ? "" : fault);
  return arrays_.back().get();
}

const GpuMemory* KernelCases::array(Index count) {
  return numbers(count, type_);
}

const GpuMemory* KernelCases::random_tokens() {
  const Index count = sizes_.sequences * (sizes_.context + 1);
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(count));
  const Philox random(1);
  for (std::size_t i = 0; i < tokens.size(); ++i)
    tokens[i] =
        static_cast<std::int32_t>(random.uniform(i) * static_cast<double>(sizes_.vocabulary));
  arrays_.push_back(std::make_unique<GpuMemory>(count * size_of(DType::kI32)));
  arrays_.back()->copy_from(tokens.data());
  return arrays_.back().get();
}

void KernelCases::add_elementwise() {
  const Index count = sizes_.sequences * sizes_.context * 4 * sizes_.width;
  const double array_bytes = amount(count, size_of(type_));
  const GpuMemory* x = array(count);
  const GpuMemory* y = array(count);
  const GpuMemory* sum = numbers(2, DType::kF32);
  cases_.push_back(
      {.name = "gelu_forward",
       .bytes = 2 * array_bytes,
       .run = [=, this] { return gelu_forward_cuda(context_, type_, count, x->get(), y->get()); },
       .output = y});
  cases_.push_back(
      {.name = "gelu_backward",
       .bytes = 3 * array_bytes,
       .run = [=, this] { return gelu_backward_cuda(context_, type_, count, x->get(), y->get()); },
       .output = y});
  cases_.push_back({.name = "fill",
                    .bytes = array_bytes,
                    .run = [=, this] { return fill_cuda(context_, type_, count, 1.0F, y->get()); },
                    .output = y});
  cases_.push_back({.name = "sum_of_squares", .bytes = array_bytes, .run = [=, this] {
                      return sum_of_squares_cuda(context_, type_, count, x->get(),
                                                 sum->as<double>());
                    }});
}

// As wide as LLaMA's: with three matrices a feed-forward layer has 8/3 of the width, for as many
// parameters as two have with 4, rounded up to whole tiles of a product.
void KernelCases::add_swiglu() {
  constexpr Index kTile = 256;
  const SwigluShape shape{sizes_.sequences * sizes_.context,
                          ceil_div(8 * sizes_.width, 3 * kTile) * kTile};
  const Index count = shape.tokens * shape.hidden;
  const double array_bytes = amount(count, size_of(type_));
  const GpuMemory* x = array(2 * count);
  const GpuMemory* out = array(count);
  const GpuMemory* dx = array(2 * count);
  cases_.push_back(
      {.name = "swiglu_forward",
       .bytes = 3 * array_bytes,
       .run = [=,
               this] { return swiglu_forward_cuda(context_, type_, shape, x->get(), out->get()); },
       .output = out});
  cases_.push_back({.name = "swiglu_backward",
                    .bytes = 5 * array_bytes,
                    .run =
                        [=, this] {
                          return swiglu_backward_cuda(context_, type_, shape, x->get(), out->get(),
                                                      dx->get());
                        },
                    .output = dx});
}

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

// Flops of the published algorithm: two products over the causal half forward, five backward.
void KernelCases::add_attention() {
  const AttentionShape shape{sizes_.sequences, sizes_.context, sizes_.heads,
                             sizes_.width / sizes_.heads};
  const Index count = sizes_.sequences * sizes_.context * sizes_.width;
  const GpuMemory* qkv = array(3 * count);
  const GpuMemory* out = array(count);
  const GpuMemory* dout = array(count);
  const GpuMemory* dqkv = array(3 * count);
  const GpuMemory* logsumexp =
      numbers(sizes_.sequences * sizes_.heads * sizes_.context, DType::kF32);
  const double product =
      amount(sizes_.sequences * sizes_.width, sizes_.context, sizes_.context + 1);
  cases_.push_back({.name = "attention_forward",
                    .flops = 2 * product,
                    .run =
                        [=, this] {
                          return attention_forward_cuda(context_, type_, shape, qkv->get(),
                                                        out->get(), logsumexp->as<float>());
                        },
                    .output = out});
  cases_.push_back({.name = "attention_backward",
                    .flops = 5 * product,
                    .run =
                        [=, this] {
                          return attention_backward_cuda(context_, type_, shape, qkv->get(),
                                                         out->get(), logsumexp->as<float>(),
                                                         dout->get(), dqkv->get());
                        },
                    .output = dqkv});
  if (type_ == DType::kBF16)
    add_attention_by_cudnn(shape, {qkv, out, logsumexp, dout, dqkv}, product);
  const GpuMemory* memory =
      numbers(attention_score_bytes(shape) / size_of(DType::kF32), DType::kF32);
  const AttentionScores scores{memory->get(), memory->bytes()};
  cases_.push_back({.name = "attention_forward, batched",
                    .flops = 2 * product,
                    .run =
                        [=, this] {
                          return attention_forward_batched_cuda(context_, type_, shape, qkv->get(),
                                                                out->get(), logsumexp->as<float>(),
                                                                scores);
                        },
                    .output = out});
  cases_.push_back({.name = "attention_backward, batched",
                    .flops = 5 * product,
                    .run =
                        [=, this] {
                          return attention_backward_batched_cuda(context_, type_, shape, qkv->get(),
                                                                 out->get(), logsumexp->as<float>(),
                                                                 dout->get(), dqkv->get(), scores);
                        },
                    .output = dqkv});
}

// What cuDNN takes of attention, with the workspace that training gives it.
void KernelCases::add_attention_by_cudnn(const AttentionShape& shape, const AttentionArrays& arrays,
                                         double product) {
  CudaContext context = context_;
  const GpuMemory* workspace =
      numbers(std::max(context.workspace_bytes, cudnn_workspace(shape)) / size_of(DType::kF32),
              DType::kF32);
  context.workspace = workspace->get();
  context.workspace_bytes = workspace->bytes();
  const auto forward = [=, this] {
    return attention_forward_cudnn(context, type_, shape, arrays.qkv->get(), arrays.out->get(),
                                   arrays.logsumexp->as<float>());
  };
  const auto backward = [=, this] {
    return attention_backward_cudnn(context, type_, shape, arrays.qkv->get(), arrays.out->get(),
                                    arrays.logsumexp->as<float>(), arrays.dout->get(),
                                    arrays.dqkv->get());
  };
  if (forward().taken)
    cases_.push_back({.name = "attention_forward, cuDNN",
                      .flops = 2 * product,
                      .run = [=] { return forward().fault; },
                      .output = arrays.out});
  if (backward().taken)
    cases_.push_back({.name = "attention_backward, cuDNN",
                      .flops = 5 * product,
                      .run = [=] { return backward().fault; },
                      .output = arrays.dqkv});
}

// AdamW of some 1.8 GB, with gradients and working parameters of the type measured.
void KernelCases::add_update() {
  constexpr Index kCount = Index{1} << 26;
  const std::span<const RuleInfo> rules = all_rules();
  const auto rule = std::ranges::find(rules, std::string_view("adamw"), &RuleInfo::name);
  const UpdateKind kind{.rule = rule - rules.begin(), .gradient = type_, .working = type_};
  const Hyperparameters hyper{
      .beta1 = 0.9F, .beta2 = 0.95F, .momentum = 0, .eps = 1e-8F, .weight_decay = 0.1F};
  const StepBytes step = rule->step(hyper, 1e-4F, 100);
  const GpuMemory* parameters = numbers(kCount, DType::kF32);
  const GpuMemory* working = type_ == DType::kBF16 ? array(kCount) : nullptr;
  const float one = 1;
  const GpuMemory* clip = numbers(1, DType::kF32);
  clip->copy_from(&one);
  UpdateArrays arrays{.count = kCount,
                      .clip = clip->as<const float>(),
                      .g = array(kCount)->get(),
                      .p = parameters->as<float>(),
                      .states = {},
                      .w = working == nullptr ? nullptr : working->as<BF16>()};
  for (std::size_t s = 0; s < rule->states.size(); ++s) {
    const GpuMemory* state = numbers(kCount, DType::kF32);
    // The second moment is a mean of squares.
    const char* fault = fill_cuda(context_, DType::kF32, kCount, 0.5F, state->get());
    expect(fault == nullptr, "states on the GPU: {}", fault == nullptr ? "" : fault);
    arrays.states[s] = state->as<float>();
  }
  cases_.push_back({.name = "update.adamw",
                    .bytes = amount(kCount, bytes_per_parameter(kind, std::ssize(rule->states))),
                    .run = [=, this] { return update_cuda(context_, kind, step, arrays); },
                    .output = working == nullptr ? parameters : working});
}

void KernelCases::add_products() {
  const Index tokens = sizes_.sequences * sizes_.context;
  const Index width = sizes_.width;
  add_linear("qkv", {tokens, width, 3 * width, 3 * width}, array(3 * width)->get());
  add_linear("projection", {tokens, width, width, width}, array(width)->get());
  add_linear("up", {tokens, width, 4 * width, 4 * width}, array(4 * width)->get());
  add_linear("down", {tokens, 4 * width, width, width}, array(width)->get());
  add_linear("logits",
             {sizes_.logit_rows, width, sizes_.vocabulary, shape::logits_stride(sizes_.vocabulary)},
             nullptr);
}

void KernelCases::add_linear(const std::string& name, const LinearSizes& s, const void* bias) {
  const double flops = 2 * amount(s.tokens, s.in, s.out);
  const GpuMemory* x = array(s.tokens * s.in);
  const GpuMemory* y = array(s.tokens * s.stride);
  const GpuMemory* w = array(s.in * s.out);
  blocks_.push_back(std::make_unique<const void*>(w->get()));
  const RowBlocks<const void> weight{{s.out, s.in, s.out}, blocks_.back().get()};
  const LinearWeightBlock block{s.tokens, s.in, s.stride, 0, s.out, s.in};
  cases_.push_back({.name = name + " forward",
                    .flops = flops,
                    .run =
                        [=, this] {
                          return linear_forward_cuda(context_, type_, s.tokens, x->get(), weight,
                                                     bias, nullptr, y->get(), s.stride);
                        },
                    .output = y});
  cases_.push_back({.name = name + " backward data",
                    .flops = flops,
                    .run =
                        [=, this] {
                          return linear_backward_data_cuda(context_, type_, s.tokens, y->get(),
                                                           s.stride, weight, x->get());
                        },
                    .output = x});
  cases_.push_back({.name = name + " backward weight",
                    .flops = flops,
                    .run =
                        [=, this] {
                          return linear_backward_weight_cuda(context_, type_, type_, block,
                                                             y->get(), x->get(), false, w->get());
                        },
                    .output = w});
}

}  // namespace dos::bench
