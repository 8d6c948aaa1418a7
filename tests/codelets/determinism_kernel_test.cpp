// SPDX-License-Identifier: Apache-2.0
// The same input gives the same bits wherever its buffers lie: no loop may peel for alignment.
#include <gtest/gtest.h>

#include "codelets/attention/attention.hpp"
#include "codelets/cross_entropy/cross_entropy.hpp"
#include "codelets/gelu/gelu.hpp"
#include "codelets/layernorm/layernorm.hpp"
#include "codelets/linear/linear.hpp"
#include "codelets/reduce/reduce.hpp"
#include "codelets/swiglu/swiglu.hpp"
#include "codelets/update/rule_info.hpp"
#include "codelets/update/update.hpp"
#include "kernel_test.hpp"

namespace dos::test::determinism_kernel_test {
namespace {

constexpr Index kShifts[] = {1, 3, 8, 13};

/// Runs `kernel(input, output)` on buffers at several alignments; the outputs must agree.
template <class T = float, class F>
void expect_same_everywhere(Index inputs, Index outputs, F&& kernel) {
  const Input<T> values(random_values(inputs, 1));
  Guarded<T> expected(outputs);
  {
    Guarded<T> input(values.view());
    kernel(input.get(), expected.get());
  }
  for (const Index shift : kShifts) {
    Guarded<T> input(values.view(), shift);
    Guarded<T> output(outputs, T{}, shift / 2);
    kernel(input.get(), output.get());
    EXPECT_TRUE(same_bits(output.view(), expected.view())) << "shift " << shift;
  }
}

TEST(KernelDeterminism, RowKernels) {
  constexpr Index kTokens = 5;
  constexpr Index kWidth = 203;
  constexpr Index kCount = kTokens * kWidth;
  for_each_compiled_isa([]<simd::Isa isa>() {
    expect_same_everywhere(kCount, kCount, [](const float* x, float* y) {
      codelets::gelu_forward_cpu<isa>(kCount, x, y);
    });
    expect_same_everywhere(3 * kCount, 3 * kCount, [](const float* x, float* y) {
      codelets::swiglu_forward_cpu<isa>({kTokens, kWidth}, x, y);
      codelets::swiglu_backward_cpu<isa>({kTokens, kWidth}, x, x + 2 * kCount, y + kCount);
    });
    expect_same_everywhere(kCount, kCount + 2 * kTokens, [](const float* x, float* y) {
      codelets::layernorm_forward_cpu<isa>(kTokens, kWidth, x, x, x + kWidth, y, y + kCount);
    });
    expect_same_everywhere(kCount, kCount, [](const float* x, float* y) {
      codelets::layernorm_backward_cpu<isa>(kTokens, kWidth, x, x, x + 10, x, nullptr, y);
    });
    expect_same_everywhere(kCount, 2 * kWidth, [](const float* x, float* y) {
      codelets::layernorm_backward_weight_cpu<isa>(kTokens, kWidth, x, x, x, false, y, y + kWidth);
    });
    expect_same_everywhere(kCount, kWidth, [](const float* x, float* y) {
      codelets::bias_backward_cpu<isa>(kTokens, kWidth, x, false, y);
    });
  });
}

TEST(KernelDeterminism, Bf16Kernels) {
  constexpr Index kTokens = 37;
  constexpr Index kWidth = 203;
  constexpr Index kOut = 66;
  constexpr Index kCount = kTokens * kWidth;
  static const std::vector<float> statistics(2 * kTokens, 0.5F);
  for_each_compiled_isa([]<simd::Isa isa>() {
    expect_same_everywhere<BF16>(kCount, kCount, [](const BF16* x, BF16* y) {
      codelets::gelu_forward_cpu<isa>(kCount, x, y);
      codelets::gelu_backward_cpu<isa>(kCount, x, y);
    });
    expect_same_everywhere<BF16>(3 * kCount, 3 * kCount, [](const BF16* x, BF16* y) {
      codelets::swiglu_forward_cpu<isa>({kTokens, kWidth}, x, y);
      codelets::swiglu_backward_cpu<isa>({kTokens, kWidth}, x, x + 2 * kCount, y + kCount);
    });
    expect_same_everywhere<BF16>(kCount, kCount + 2 * kWidth, [](const BF16* x, BF16* y) {
      codelets::layernorm_backward_cpu<isa>(kTokens, kWidth, x, x, statistics.data(), x, nullptr,
                                            y);
      codelets::layernorm_backward_weight_cpu<isa>(kTokens, kWidth, x, statistics.data(), x, false,
                                                   y + kCount, y + kCount + kWidth);
    });
    expect_same_everywhere<BF16>(
        kCount + kOut * kWidth, kTokens * kOut + kOut * kWidth, [](const BF16* x, BF16* y) {
          const BF16* blocks[] = {x + kCount, x + kCount + 60 * kWidth};
          codelets::linear_forward_cpu<isa>(
              kTokens, x, codelets::RowBlocks<const BF16>{{kOut, kWidth, 60}, blocks}, nullptr,
              nullptr, y, kOut);
          codelets::linear_backward_weight_cpu<isa>({kTokens, kWidth, kOut, 0, kOut, kWidth}, y, x,
                                                    false, y + kTokens * kOut);
        });
  });
}

// Parameters and states, all of them valid whatever the rule: positive. The gradient comes last.
TEST(KernelDeterminism, Updates) {
  constexpr Index kCount = 1015;
  constexpr Index kArrays = 1 + codelets::kMostStates;
  static constexpr float kClip = 0.5F;
  for_each_compiled_isa([]<simd::Isa isa>() {
    for (Index rule = 0; rule < std::ssize(codelets::all_rules()); ++rule) {
      const codelets::RuleInfo& info = codelets::all_rules()[static_cast<std::size_t>(rule)];
      SCOPED_TRACE(info.name);
      const codelets::StepBytes step = info.step({0.9F, 0.95F, 0.9F, 1e-8F, 0.1F}, 1e-3F, 7);
      expect_same_everywhere(
          (kArrays + 1) * kCount, kArrays * kCount, [&](const float* x, float* y) {
            std::transform(x, x + kArrays * kCount, y, [](float value) { return value * value; });
            codelets::UpdateArrays arrays{kCount, &kClip, x + kArrays * kCount, y, {}, nullptr};
            for (Index i = 0; i < codelets::kMostStates; ++i)
              arrays.states[i] = y + (i + 1) * kCount;
            codelets::update_cpu<isa>({rule, DType::kF32, DType::kF32})(step.bytes, arrays);
          });
    }
  });
}

TEST(KernelDeterminism, Losses) {
  constexpr codelets::CrossEntropyRows kRows{0, 3, 3, 1201, 1201};
  const std::vector<std::int32_t> tokens{0, 5, 1200, 7};
  for_each_compiled_isa([&]<simd::Isa isa>() {
    expect_same_everywhere(3 * 1201, 3 * 1201 + 2, [&](const float* x, float* y) {
      std::copy(x, x + 3 * 1201, y);
      double loss = 0;
      codelets::cross_entropy_forward_backward_cpu<isa>(kRows, 1.0F, y, tokens.data(), &loss);
      std::memcpy(y + 3 * 1201, &loss, sizeof loss);
    });
    expect_same_everywhere(999, 2, [](const float* x, float* y) {
      const double sum = codelets::sum_of_squares_cpu<isa>(999, x);
      std::memcpy(y, &sum, sizeof sum);
    });
  });
}

// Several blocks of queries, heads that share keys, a window that ends within a block.
TEST(KernelDeterminism, Attention) {
  static constexpr codelets::AttentionShape kShape{1, 171, 4, 12, 2, 70};
  static constexpr Index kRow = kShape.qkv_width();
  static constexpr Index kQkv = kShape.tokens * kRow;
  static constexpr Index kOut = kShape.tokens * kShape.width();
  const auto kernels = []<simd::Isa isa>(const auto* x, auto* y) {
    // From the beginning of a cache line on, and from within one.
    static Index shift = 0;
    shift = (shift + 3) % 16;
    std::vector<float> workspace(
        static_cast<std::size_t>(codelets::attention_workspace(kShape) + shift));
    std::vector<float> logsumexp(static_cast<std::size_t>(kShape.tokens * kShape.heads));
    codelets::attention_forward_cpu<isa>(kShape, x, y, logsumexp.data(), workspace.data() + shift);
    codelets::attention_backward_cpu<isa>(kShape, x, y, logsumexp.data(), x + kQkv, y + kOut,
                                          workspace.data() + shift);
  };
  for_each_compiled_isa([&]<simd::Isa isa>() {
    expect_same_everywhere(kQkv + kOut, kQkv + kOut, [&](const float* x, float* y) {
      kernels.template operator()<isa>(x, y);
    });
    expect_same_everywhere<BF16>(kQkv + kOut, kQkv + kOut, [&](const BF16* x, BF16* y) {
      kernels.template operator()<isa>(x, y);
    });
  });
}

// What a sequence gives does not depend on those before it, nor on how many heads there are.
TEST(KernelDeterminism, AttentionOfASequenceAlone) {
  constexpr codelets::AttentionShape kBoth{2, 83, 2, 12};
  constexpr codelets::AttentionShape kOne{1, 83, 2, 12};
  const Index values = kOne.tokens * kOne.qkv_width();
  const std::vector<float> qkv = random_values(2 * values, 1);
  for_each_compiled_isa([&]<simd::Isa isa>() {
    const auto outputs = [&](const codelets::AttentionShape& shape, const float* x) {
      std::vector<float> workspace(static_cast<std::size_t>(codelets::attention_workspace(shape)));
      std::vector<float> out(
          static_cast<std::size_t>(shape.sequences * shape.tokens * shape.width()));
      std::vector<float> logsumexp(
          static_cast<std::size_t>(shape.sequences * shape.tokens * shape.heads));
      codelets::attention_forward_cpu<isa>(shape, x, out.data(), logsumexp.data(),
                                           workspace.data());
      return out;
    };
    const std::vector<float> together = outputs(kBoth, qkv.data());
    const std::vector<float> alone = outputs(kOne, qkv.data() + values);
    EXPECT_TRUE(same_bits(std::span<const float>(together).last(alone.size()),
                          std::span<const float>(alone)));
  });
}

}  // namespace
}  // namespace dos::test::determinism_kernel_test
