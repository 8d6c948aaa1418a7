// SPDX-License-Identifier: Apache-2.0
// Layer norm and cross entropy on an NVIDIA GPU.
#include <algorithm>

#include "codelets/cross_entropy/cross_entropy.hpp"
#include "codelets/cuda_test.hpp"
#include "codelets/layernorm/layernorm.hpp"
#include "codelets/row_gaps.hpp"
#include "reference/cross_entropy.hpp"
#include "reference/layernorm.hpp"
#include "sanitized.hpp"

namespace dos::test::rows_cuda_test {
namespace {

using namespace codelets;

struct NormSize {
  Index tokens;
  Index width;
};
// Widths of a warp's and of a block's rows, of every number of words a thread, whole and in part,
// more than registers keep, odd ones.
constexpr NormSize kNormSizes[] = {{0, 8},    {1, 1},    {3, 7},    {2, 8},    {5, 31},   {9, 200},
                                   {4, 1023}, {3, 1025}, {300, 40}, {2, 4096}, {1, 8192}, {2, 9001},
                                   {65, 264}, {270, 16}, {3, 768},  {2, 1000}, {2, 1280}, {1, 1544},
                                   {2, 2048}, {1, 2056}, {1, 6144}};

/// Arrays of one norm on host and device.
struct Norm {
  Norm(const NormSize& s, DType type, Index shift)
      : x(type, random_values(s.tokens * s.width, 1), shift),
        weight(type, random_values(s.width, 2), shift),
        bias(type, random_values(s.width, 3), shift),
        dy(type, random_values(s.tokens * s.width, 4), shift),
        residual(type, random_values(s.tokens * s.width, 5), shift) {}
  Elements x, weight, bias, dy, residual;
};

/// A sum over a row, each thread a part of it, then a tree: fewer roundings than terms; the formula
/// adds about 16. Statistics come back in FP32.
double row_factor(Index width) {
  return (static_cast<double>(width) / 4 + 16) * kEps;
}

template <class F>
void each_norm(F&& f) {
  int number = 0;
  for (const NormSize& s : kNormSizes)
    for (const DType type : kElementTypes)
      for (const Index shift : {0, 1}) {
        if (!tries(number++, 3)) continue;
        SCOPED_TRACE(testing::Message()
                     << name_of(type) << " " << s.tokens << " x " << s.width << " + " << shift);
        f(s, type, shift);
      }
}

TEST_F(CudaKernel, LayerNormMatchesTheReference) {
  each_norm([](const NormSize& s, DType type, Index shift) {
    const Norm n(s, type, shift);
    Elements y = unwritten(type, s.tokens * s.width, shift);
    Elements statistics = unwritten(DType::kF32, 2 * s.tokens);
    const OnGpu x(n.x);
    const OnGpu weight(n.weight);
    const OnGpu bias(n.bias);
    Both out(y);
    Both pairs(statistics);
    const LayerNormArrays arrays{s.tokens, s.width, x.get(), weight.get()};
    expect_done(layernorm_forward_cuda(cuda_context(), type, arrays, bias.get(), out.get(),
                                       static_cast<float*>(pairs.get())));
    out.bring_back();
    pairs.bring_back();
    const auto values = n.x.values();
    expect_rounded(y,
                   reference::layernorm(s.tokens, s.width, values.data(), n.weight.values().data(),
                                        n.bias.values().data(), kLayerNormEpsilon),
                   row_factor(s.width));
    for (Index t = 0; t < s.tokens; ++t) {
      const auto row =
          reference::row_statistics(s.width, values.data() + t * s.width, kLayerNormEpsilon);
      EXPECT_NEAR(statistics.get(2 * t), row.mean, row_factor(s.width) * row.mean_magnitude);
      EXPECT_NEAR(statistics.get(2 * t + 1), row.rstd, row_factor(s.width) * row.rstd);
    }
  });
}

std::vector<float> statistics_of(const NormSize& s, const Elements& x) {
  const auto values = x.values();
  std::vector<float> result;
  for (Index t = 0; t < s.tokens; ++t) {
    const auto row =
        reference::row_statistics(s.width, values.data() + t * s.width, kLayerNormEpsilon);
    result.push_back(static_cast<float>(row.mean));
    result.push_back(static_cast<float>(row.rstd));
  }
  return result;
}

TEST_F(CudaKernel, LayerNormDataGradientMatchesTheReference) {
  each_norm([](const NormSize& s, DType type, Index shift) {
    if (s.width > 2100) return;  // the reference takes width^2 steps
    const Norm n(s, type, shift);
    const Elements statistics(DType::kF32, statistics_of(s, n.x));
    const OnGpu x(n.x);
    const OnGpu weight(n.weight);
    const OnGpu pairs(statistics);
    const OnGpu dy(n.dy);
    const OnGpu residual(n.residual);
    for (const bool with : {false, true}) {
      Elements dx = unwritten(type, s.tokens * s.width, shift);
      Both out(dx);
      expect_done(layernorm_backward_cuda(
          cuda_context(), type, {s.tokens, s.width, x.get(), weight.get()}, pairs.as<float>(),
          dy.get(), with ? residual.get() : nullptr, out.get()));
      out.bring_back();
      const auto extra = n.residual.values();
      expect_rounded(
          dx,
          reference::layernorm_data_gradient(s.tokens, s.width, n.x.values().data(),
                                             n.weight.values().data(), statistics.values().data(),
                                             n.dy.values().data(), with ? extra.data() : nullptr),
          row_factor(s.width));
    }
  });
}

// Sums over tokens: at most one rounding a token, in any order, and a few of the formula.
TEST_F(CudaKernel, LayerNormWeightGradientsMatchTheReference) {
  each_norm([](const NormSize& s, DType type, Index shift) {
    const Norm n(s, type, shift);
    const Elements statistics(DType::kF32, statistics_of(s, n.x));
    const OnGpu x(n.x);
    const OnGpu pairs(statistics);
    const OnGpu dy(n.dy);
    for (const DType gradient : kElementTypes)
      for (const bool accumulate : {false, true}) {
        const Elements before(gradient, random_values(2 * s.width, 6));
        Elements d = before;
        Both out(d);
        auto* dweight = static_cast<std::byte*>(out.get());
        expect_done(layernorm_backward_weight_cuda(cuda_context(), type, gradient,
                                                   {s.tokens, s.width, x.get(), nullptr},
                                                   pairs.as<float>(), dy.get(), accumulate, dweight,
                                                   dweight + s.width * size_of(gradient)));
        out.bring_back();
        const auto start = before.values();
        expect_rounded(d,
                       reference::layernorm_weight_gradient(
                           s.tokens, s.width, n.x.values().data(), statistics.values().data(),
                           n.dy.values().data(), accumulate ? start.data() : nullptr),
                       (static_cast<double>(s.tokens) / 2 + 6) * kEps);
      }
  });
}

// Odd vocabularies put rows at every alignment; some are smaller than a word, some than a block.
// The last is GPT-2's as models have it.
constexpr CrossEntropyRows kLossShapes[] = {{0, 0, 4, 5, 5},          {0, 1, 1, 1, 1},
                                            {2, 3, 4, 2, 2},          {0, 4, 4, 33, 33},
                                            {3, 9, 5, 1027, 1027},    {1, 3, 2, 8192, 8192},
                                            {5, 6, 11, 50257, 50257}, {5, 6, 11, 50257, 50304}};

std::vector<std::int32_t> tokens_of(const CrossEntropyRows& s) {
  const Index sequences = (s.first_row + s.rows) / s.context + 1;
  return random_tokens(sequences * (s.context + 1), s.vocabulary, 2);
}

std::size_t place_of(const CrossEntropyRows& s, Index row) {
  const Index index = s.first_row + row;
  return static_cast<std::size_t>(index / s.context * (s.context + 1) + index % s.context + 1);
}

/// Of a row's sum of exponentials, relative, in eps: FP32 sums run over V / 1024 packs of 8 in a
/// thread and 10 joins, each of which scales once; an exponential is off by 2 and by 1.2 of its
/// distance to the largest logit (the fast one of BF16; its mean is at most ln V).
double sum_error(Index vocabulary) {
  const auto v = static_cast<double>(vocabulary);
  return v / 1024 + 8 + 10 * 3 + 4 + 2 * std::log(v);
}

void expect_loss(const CrossEntropyRows& s, float fill, DType type, Counted counted,
                 bool gradient) {
  constexpr float scale = 0.125F;
  const RowGap gap{s.stride - s.vocabulary, fill};
  const Elements before(type, random_values(s.rows * s.vocabulary, 1, 2.0F));
  const auto tokens = tokens_of(s);
  const auto logits = before.values();
  Elements there_and_back(type, with_gaps(logits, s.vocabulary, gap));
  double loss = 2;
  const auto batch = batch_of(tokens, counted);
  const OnGpu tokens_there(batch.data(), std::ssize(batch) * Index{sizeof(std::int32_t)});
  const OnGpu loss_there(&loss, sizeof loss);
  Both there(there_and_back);
  expect_done(gradient ? cross_entropy_forward_backward_cuda(
                             cuda_context(), type, s, scale, there.get(),
                             tokens_there.as<std::int32_t>(), loss_there.as<double>())
                       : cross_entropy_forward_cuda(cuda_context(), type, s, there.get(),
                                                    tokens_there.as<std::int32_t>(),
                                                    loss_there.as<double>()));
  there.bring_back();
  loss_there.copy_to(&loss);
  const auto after = without_gaps<float>(there_and_back.values(), s.vocabulary, gap);
  double expected = 2;
  for (Index row = 0; row < s.rows; ++row) {
    const float* x = logits.data() + row * s.vocabulary;
    const std::size_t place = place_of(s, row);
    const Index target = tokens[place];
    const bool is_counted = counts(counted, place);
    if (is_counted) expected += reference::negative_log_likelihood(s.vocabulary, x, target);
    const auto p = reference::softmax(s.vocabulary, x);
    for (Index i = 0; i < s.vocabulary; ++i) {
      const float got = after[static_cast<std::size_t>(row * s.vocabulary + i)];
      if (!gradient) {
        ASSERT_EQ(got, x[i]);
        continue;
      }
      if (!is_counted) {
        ASSERT_EQ(got, 0);
        continue;
      }
      const double probability = p[static_cast<std::size_t>(i)];
      const double value = scale * (probability - (i == target ? 1 : 0));
      const double error = (30 + sum_error(s.vocabulary)) * probability * kEps;
      ASSERT_NEAR(got, value,
                  scale * (error + (i == target ? kEps : 0)) + std::abs(value) * rounding_of(type) +
                      0x1p-120)
          << "row " << row << " column " << i;
    }
  }
  EXPECT_NEAR(loss, expected, static_cast<double>(s.rows) * sum_error(s.vocabulary) * kEps);
}

TEST_F(CudaKernel, CrossEntropyMatchesTheReference) {
  int number = 0;
  for (const CrossEntropyRows& s : kLossShapes)
    for (const DType type : kElementTypes)
      for (const bool gradient : {false, true}) {
        if (!tries(number++, 3)) continue;
        SCOPED_TRACE(testing::Message()
                     << name_of(type) << " " << s.rows << " of " << s.vocabulary);
        for (const Counted counted : {Counted::kAll, Counted::kSome}) {
          expect_loss(s, kCudaNan, type, counted, gradient);
          if (s.stride > s.vocabulary) expect_loss(s, 7, type, counted, gradient);
        }
      }
}

TEST_F(CudaKernel, CrossEntropyOfMaskedAndBadLogits) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const CrossEntropyRows s{0, 3, 3, 5000, 5000};
  for (const DType type : kElementTypes) {
    std::vector<float> logits(15000, -kInf);
    logits[4000] = 1;  // the only one there is
    logits[5000 + 17] = kCudaNan;
    for (std::size_t i = 0; i < 5000; ++i) logits[10000 + i] = i % 2 == 0 ? 1e4F : -1e4F;
    Elements there(type, logits);
    const std::vector<std::int32_t> tokens{0, 4000, 1, 2};
    std::vector<double> loss(1, 0);
    const OnGpu tokens_there(tokens.data(), 16);
    const OnGpu loss_there(loss.data(), 8);
    Both gpu(there);
    expect_done(cross_entropy_forward_backward_cuda(cuda_context(), type, s, 1, gpu.get(),
                                                    tokens_there.as<std::int32_t>(),
                                                    loss_there.as<double>()));
    gpu.bring_back();
    for (Index i = 0; i < 5000; ++i) {
      ASSERT_EQ(there.get(i), 0) << i;
      ASSERT_TRUE(std::isnan(there.get(5000 + i))) << i;
      ASSERT_TRUE(std::isfinite(there.get(10000 + i))) << i;
    }
  }
}

TEST_F(CudaKernel, MeanLossEmptiesTheLanes) {
  for (const Index lanes : {1, 3, 300}) {
    std::vector<double> losses(static_cast<std::size_t>(lanes));
    double sum = 0;
    for (std::size_t i = 0; i < losses.size(); ++i) sum += losses[i] = 1.0 / (1.0 + double(i));
    const OnGpu there(losses.data(), lanes * Index{sizeof(double)});
    std::vector<double*> addresses;
    for (Index i = 0; i < lanes; ++i) addresses.push_back(there.as<double>() + i);
    double mean = -1;
    const OnGpu mean_there(&mean, sizeof mean);
    expect_done(mean_loss_cuda(cuda_context(), addresses, 7, mean_there.as<double>()));
    mean_there.copy_to(&mean);
    there.copy_to(losses.data());
    EXPECT_EQ(mean, sum / 7);
    for (const double loss : losses) EXPECT_EQ(loss, 0);
  }
}

}  // namespace
}  // namespace dos::test::rows_cuda_test
