// SPDX-License-Identifier: Apache-2.0
#include "codelets/cross_entropy/cross_entropy.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "kernel_test.hpp"
#include "reference/cross_entropy.hpp"
#include "row_gaps.hpp"

namespace dos::test::cross_entropy_kernel_test {
namespace {

using codelets::CrossEntropyRows;

// first_row, rows, context, vocabulary, stride
constexpr CrossEntropyRows kShapes[] = {
    {0, 0, 4, 5, 5},       {0, 1, 1, 1, 1},       {0, 3, 2, 1, 1},
    {1, 4, 3, 2, 2},       {5, 7, 4, 17, 17},     {0, 8, 8, 64, 64},
    {3, 2, 5, 1023, 1023}, {0, 2, 2, 1025, 1025}, {1, 2, 3, 50257, 50257}};

template <class T>
struct Inputs {
  explicit Inputs(const CrossEntropyRows& s)
      : logits(random_values(s.rows * s.vocabulary, 1, 4.0F)),
        tokens(random_tokens(((s.first_row + s.rows) / s.context + 1) * (s.context + 1),
                             s.vocabulary, 2)) {}
  Input<T> logits;
  std::vector<std::int32_t> tokens;
};

/// Where a row's target stands in the batch.
std::size_t place_of(const CrossEntropyRows& s, Index row) {
  const Index sequence = (s.first_row + row) / s.context;
  const Index position = (s.first_row + row) % s.context;
  return static_cast<std::size_t>(sequence * (s.context + 1) + position + 1);
}

// Relative error of a row's sum of exponentials, in eps: each is off by 1.5 and by half of its
// distance to the largest logit, whose mean under softmax is at most ln V; FP32 sums run over at
// most 1024 terms in at least four lanes.
double sum_error(Index vocabulary) {
  const auto v = static_cast<double>(vocabulary);
  return std::min(v, 1024.0) / 8 + 4 + std::log(v);
}

template <class T>
double expected_loss(const CrossEntropyRows& s, const Inputs<T>& in, Counted counted) {
  double loss = 0;
  for (Index row = 0; row < s.rows; ++row) {
    const std::size_t place = place_of(s, row);
    if (!counts(counted, place)) continue;
    loss += reference::negative_log_likelihood(s.vocabulary, in.logits.data() + row * s.vocabulary,
                                               in.tokens[place]);
  }
  return loss;
}

template <class T>
void expect_gradient(const CrossEntropyRows& s, float scale, const Inputs<T>& in, Counted counted,
                     std::span<const T> got) {
  std::vector<double> value;
  std::vector<double> tolerance;
  for (Index row = 0; row < s.rows; ++row) {
    const float* x = in.logits.data() + row * s.vocabulary;
    const auto p = reference::softmax(s.vocabulary, x);
    const double largest = *std::max_element(x, x + s.vocabulary);
    const std::size_t place = place_of(s, row);
    if (!counts(counted, place)) {
      value.resize(value.size() + static_cast<std::size_t>(s.vocabulary), 0);
      tolerance.resize(value.size(), 0);
      continue;
    }
    for (Index i = 0; i < s.vocabulary; ++i) {
      const double probability = p[static_cast<std::size_t>(i)];
      const bool hit = i == in.tokens[place];
      const double distance = std::min(largest - x[i], 90.0);
      value.push_back(scale * (probability - (hit ? 1 : 0)));
      tolerance.push_back(std::abs(scale) *
                          ((distance / 2 + 4 + sum_error(s.vocabulary)) * probability * kEps +
                           (hit ? kEps : 0) + 0x1p-124));
    }
  }
  expect_within<T>(got, value, tolerance);
}

/// `change` makes the inputs special.
template <class Change>
void check(const CrossEntropyRows& s, Counted counted, const Change& change) {
  SCOPED_TRACE(testing::Message() << s.rows << " rows of " << s.vocabulary);
  const double tolerance = static_cast<double>(s.rows) * sum_error(s.vocabulary) * kEps;
  for_each_kernel([&]<class T>(simd::Isa isa) {
    Inputs<T> in(s);
    change(in);
    const double expected = expected_loss(s, in, counted);
    const auto batch = batch_of(in.tokens, counted);
    for (const RowGap& gap : kRowGaps) {
      CrossEntropyRows apart = s;
      apart.stride += gap.count;
      const Input<T> before(with_gaps(in.logits.exact(), s.vocabulary, gap));
      Guarded<double> loss(1, 2.0);
      Guarded<T> logits(before.view());
      simd::dispatch(isa, [&]<simd::Isa kIsa>() {
        codelets::cross_entropy_forward_cpu<kIsa>(apart, logits.get(), batch.data(), loss.get());
      });
      EXPECT_NEAR(loss[0], 2.0 + expected, tolerance + 0x1p-50 * std::abs(expected));
      EXPECT_TRUE(same_bits(logits.view(), before.view()));
      const float scale = 0.125F;
      Guarded<double> again(1, 2.0);
      simd::dispatch(isa, [&]<simd::Isa kIsa>() {
        codelets::cross_entropy_forward_backward_cpu<kIsa>(apart, scale, logits.get(), batch.data(),
                                                           again.get());
      });
      EXPECT_NEAR(again[0], 2.0 + expected, tolerance + 0x1p-50 * std::abs(expected));
      expect_gradient<T>(s, scale, in, counted, without_gaps(logits.view(), s.vocabulary, gap));
    }
  });
}

TEST(CrossEntropyKernel, MatchesTheReference) {
  for (const CrossEntropyRows& s : kShapes)
    for (const Counted counted : {Counted::kAll, Counted::kSome, Counted::kNone})
      check(s, counted, [](const auto& /*inputs*/) {});
}

TEST(CrossEntropyKernel, RowsThatDoNotCountMayHoldAnything) {
  check({0, 4, 4, 33, 33}, Counted::kSome, [](auto& in) {
    in.tokens = {0, 3, 32, 1, 7};  // the first row's target is the second
    for (std::size_t i = 0; i < 33; ++i) in.logits.set(i, std::numeric_limits<float>::quiet_NaN());
  });
}

TEST(CrossEntropyKernel, ExtremeLogitsStayFinite) {
  check({0, 4, 4, 33, 33}, Counted::kAll, [](auto& in) {
    for (std::size_t i = 0; i < 33; ++i) {
      in.logits.set(i, 1e4F);
      in.logits.set(33 + i, -1e4F);
      in.logits.set(66 + i, i % 2 == 0 ? 1e4F : -1e4F);
      in.logits.set(99 + i, i == 5 ? 88.0F : -88.0F);
    }
    in.tokens = {0, 3, 32, 1, 7};
  });
}

TEST(CrossEntropyKernel, BadLogitsGiveBadLossAndGradient) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    for (const Index place : {0, 5, 36}) {
      for_each_kernel([&]<class T>(simd::Isa isa) {
        const CrossEntropyRows s{0, 2, 2, 37, 37};
        Inputs<T> in(s);
        in.logits.set(static_cast<std::size_t>(37 + place), bad);
        double loss = 0;
        simd::dispatch(isa, [&]<simd::Isa kIsa>() {
          codelets::cross_entropy_forward_cpu<kIsa>(s, in.logits.elements(), in.tokens.data(),
                                                    &loss);
        });
        EXPECT_TRUE(std::isnan(loss));
        loss = 0;
        simd::dispatch(isa, [&]<simd::Isa kIsa>() {
          codelets::cross_entropy_forward_backward_cpu<kIsa>(s, 1.0F, in.logits.elements(),
                                                             in.tokens.data(), &loss);
        });
        EXPECT_TRUE(std::isnan(loss));
        for (std::size_t i = 0; i < 74; ++i)
          EXPECT_EQ(std::isnan(to_float(in.logits.elements()[i])), i >= 37) << i;
      });
    }
  }
}

}  // namespace
}  // namespace dos::test::cross_entropy_kernel_test
