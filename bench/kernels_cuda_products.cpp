// SPDX-License-Identifier: Apache-2.0
// Products of matrices: a layer's, its logits', and those of adapters.
#include "codelets/linear/linear.hpp"
#include "kernels_cuda_cases.hpp"
#include "shape/activation_sets.hpp"

namespace dos::bench {

using namespace codelets;

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

// Products of adapters, whose rank is small: what they are added to counts.
void KernelCases::add_low_rank() {
  constexpr Index kRank = 16;
  const Index tokens = sizes_.sequences * sizes_.context;
  const Index width = sizes_.width;
  const double array_bytes = amount(tokens, width, size_of(type_));
  const GpuMemory* between = array(tokens * kRank);
  const GpuMemory* y = array(tokens * width);
  const GpuMemory* weight = array(width * kRank);
  blocks_.push_back(std::make_unique<const void*>(weight->get()));
  const RowBlocks<const void> up{{width, kRank, width}, blocks_.back().get()};
  const RowBlocks<const void> down{{kRank, width, kRank}, blocks_.back().get()};
  cases_.push_back({.name = "low_rank_forward",
                    .bytes = 2 * array_bytes,
                    .run =
                        [=, this] {
                          return linear_add_part_cuda(context_, type_,
                                                      {tokens, 0, width, kRank, width},
                                                      between->get(), up, y->get());
                        },
                    .output = y});
  cases_.push_back({.name = "low_rank_backward_data",
                    .bytes = array_bytes,
                    .run =
                        [=, this] {
                          return linear_backward_part_cuda(context_, type_,
                                                           {tokens, 0, width, kRank, width},
                                                           y->get(), up, {}, between->get());
                        },
                    .output = between});
  cases_.push_back({.name = "linear_add_backward_data",
                    .bytes = 2 * array_bytes,
                    .run =
                        [=, this] {
                          return linear_backward_part_cuda(
                              context_, type_, {tokens, 0, kRank, width, kRank}, between->get(),
                              down, {.accumulate = true}, y->get());
                        },
                    .output = y});
  cases_.push_back({.name = "low_rank_backward_weight",
                    .bytes = array_bytes,
                    .run =
                        [=, this] {
                          return linear_backward_weight_cuda(
                              context_, type_, type_, {tokens, kRank, width, 0, width, kRank},
                              y->get(), between->get(), false, weight->get());
                        },
                    .output = weight});
}

}  // namespace dos::bench
