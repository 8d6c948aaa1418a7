// SPDX-License-Identifier: Apache-2.0
#include "kernels_cuda_cases.hpp"

#include <algorithm>
#include <exception>
#include <span>
#include <string_view>

#include "base/error.hpp"
#include "base/random.hpp"
#include "codelets/gelu/gelu.hpp"
#include "codelets/init/init.hpp"
#include "codelets/reduce/reduce.hpp"
#include "codelets/swiglu/swiglu.hpp"
#include "codelets/update/rule_info.hpp"
#include "codelets/update/update.hpp"

namespace dos::bench {

using namespace codelets;

KernelCases::KernelCases(const KernelSizes& sizes, DType type, const CudaContext& context)
    : sizes_(sizes), type_(type), context_(context) {
  add("elementwise kernels", &KernelCases::add_elementwise);
  add("SwiGLU", &KernelCases::add_swiglu);
  add("LayerNorm", &KernelCases::add_layernorm);
  add("RMSNorm", &KernelCases::add_rmsnorm);
  add("loss", &KernelCases::add_loss);
  add("embedding", &KernelCases::add_embedding);
  add("attention", &KernelCases::add_attention);
  add("update", &KernelCases::add_update);
  add("products", &KernelCases::add_products);
  add("adapters", &KernelCases::add_low_rank);
}

void KernelCases::add(const char* theme, void (KernelCases::*add_cases)()) {
  try {
    (this->*add_cases)();
  } catch (const std::exception& error) {
    faults_.push_back(std::make_unique<std::string>(error.what()));
    cases_.push_back({.name = theme, .run = [fault = faults_.back()->c_str()] { return fault; }});
  }
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
  // FP32 results become BF16 parameters.
  const GpuMemory* values = numbers(count, DType::kF32);
  const GpuMemory* rounded = numbers(count, DType::kBF16);
  cases_.push_back({.name = "round",
                    .bytes = amount(count, size_of(DType::kF32) + size_of(DType::kBF16)),
                    .run =
                        [=, this] {
                          return round_cuda(context_, count, values->as<const float>(),
                                            rounded->as<BF16>());
                        },
                    .output = type_ == DType::kBF16 ? rounded : nullptr});
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

}  // namespace dos::bench
