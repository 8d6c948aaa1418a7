// SPDX-License-Identifier: Apache-2.0
#include "codelets/attention/attention.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "kernel_test.hpp"
#include "reference/attention.hpp"
#include "sanitized.hpp"

namespace dos::test::attention_kernel_test {
namespace {

using codelets::AttentionShape;

constexpr Index kRows = codelets::kAttentionRows;
constexpr AttentionShape kShapes[] = {
    {0, 4, 1, 4},
    {1, 0, 2, 4},
    {1, 1, 1, 1},
    {1, 2, 1, 1},
    {2, 3, 2, 5},
    {1, 16, 3, 7},
    {2, 17, 1, 16},
    {1, kRows - 1, 2, 8},
    {1, kRows, 1, 33},
    {1, kRows + 1, 2, 8},
    {2, 2 * kRows, 1, 16},
    {1, 2 * kRows + 19, 2, 9},
    {1, kRows + 40, 1, 64},
    // Heads that share keys and values, heads of other sizes, windows of one token up to all.
    {2, 5, 4, 6, 2},
    {1, kRows + 7, 6, 8, 3},
    {1, 33, 4, 80, 1},
    {1, 20, 2, 96, 1},
    {1, 9, 2, 256, 1},
    {1, 17, 2, 4, 0, 1},
    {2, 2 * kRows + 19, 2, 9, 0, 5},
    {1, 3 * kRows + 3, 4, 8, 2, kRows},
    {1, 3 * kRows, 2, 8, 1, kRows + 1},
    {1, 2 * kRows, 2, 8, 2, 2 * kRows - 1},
    {1, kRows + 9, 3, 4, 1, kRows + 9},
    {1, kRows + 9, 3, 4, 3, 10'000},
    // Rows of whole vectors and a rest, several blocks of each instruction set.
    {1, 3 * kRows + 5, 1, 20},
    {1, 4 * kRows, 1, 96, 0, kRows - 3},
    {1, 3 * 48 + 1, 2, 40, 1, 47}};

/// Shapes that nobody chose.
std::vector<AttentionShape> random_shapes() {
  std::vector<AttentionShape> shapes;
  const Philox random(31);
  for (std::uint64_t n = 0; n < test::cases<std::uint64_t>(40); ++n) {
    const auto up_to = [&](std::uint64_t which, double most) {
      return 1 + static_cast<Index>(random.uniform(n, which) * most);
    };
    AttentionShape s{.sequences = up_to(0, 2),
                     .tokens = up_to(1, 150),
                     .heads = 1,
                     .head_size = n % 4 == 1 ? 2 * (15 + up_to(2, 113)) : 2 * up_to(2, 20)};
    s.kv_heads = up_to(3, 3);
    s.heads = s.kv_heads * up_to(4, 3);
    s.window = n % 3 == 0 ? 0 : up_to(5, 1.2 * static_cast<double>(s.tokens));
    shapes.push_back(s);
  }
  return shapes;
}

template <class T>
struct Result {
  explicit Result(const AttentionShape& s)
      : out(s.sequences * s.tokens * s.width(), element<T>(kNan)),
        logsumexp(s.sequences * s.heads * s.tokens, kNan),
        dqkv(s.sequences * s.tokens * s.qkv_width(), element<T>(kNan)),
        workspace(codelets::attention_workspace(s), kNan) {}
  // What the outputs and the work space held must not matter.
  static constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  Guarded<T> out;
  Guarded<float> logsumexp;
  Guarded<T> dqkv;
  Guarded<float> workspace;
};

template <class T>
void run(simd::Isa isa, const AttentionShape& s, const Input<T>& qkv, const Input<T>& dout,
         Result<T>& r) {
  simd::dispatch(isa, [&]<simd::Isa kIsa>() {
    codelets::attention_forward_cpu<kIsa>(s, qkv.elements(), r.out.get(), r.logsumexp.get(),
                                          r.workspace.get());
  });
  simd::dispatch(isa, [&]<simd::Isa kIsa>() {
    codelets::attention_backward_cpu<kIsa>(s, qkv.elements(), r.out.get(), r.logsumexp.get(),
                                           dout.elements(), r.dqkv.get(), r.workspace.get());
  });
}

/// Error bound of one sequence, in eps relative to the magnitudes of the reference. With d = head
/// size, T = tokens and S the largest sum of |q k| terms over sqrt(d), half an eps a rounding: a
/// score, in units of ln 2 and of queries times a rounded factor, is off by (d + 5) / 2 S; a
/// probability by that twice (its own and the denominator's), by the roundings of score - largest
/// and of the logarithm, 3 S + ln T, and by 2 of the power. Weights are added up one by one, T / 2,
/// as are their products with values, T / 2. From tile to tile both shrink by the same factor: the
/// product with it and the addition of the tile round each, T / 48 + 1 tiles at most.
double forward_factor(const AttentionShape& s, double score) {
  const auto d = static_cast<double>(s.head_size);
  const auto t = static_cast<double>(s.tokens);
  return ((d + 8) * score + std::log(t) + t + 2 * (t / 48 + 1) + 4) * kEps;
}
/// Backward: the same for the rebuilt probabilities, again for `out` inside delta, d / 2 for dp and
/// for delta each, T / 2 for the sums and one addition a tile. The `out` inside delta is the one in
/// memory: rounded, in BF16.
template <class T>
double backward_factor(const AttentionShape& s, double score) {
  const auto d = static_cast<double>(s.head_size);
  const double out_rounding = std::is_same_v<T, BF16> ? 0x1p-8 : 0;
  // Heads that share keys add up their gradients: an addition a tile of each.
  const auto group = static_cast<double>(s.group());
  return 2 * forward_factor(s, score) +
         (d + group * (static_cast<double>(s.tokens) / kRows + 1) + 8) * kEps + out_rounding;
}

double largest_score(const AttentionShape& s, const reference::Attention& expected) {
  double largest = 0;
  for (Index h = 0; h < s.heads; ++h) {
    for (Index t = 0; t < s.tokens; ++t) {
      largest = std::max(largest, expected.score_magnitude(h, t));
    }
  }
  return largest;
}

template <class T>
void expect_sequence(const AttentionShape& s, Index sequence, const float* qkv, const float* dout,
                     const Result<T>& r) {
  const Index values = s.tokens * s.width();
  const auto count = static_cast<std::size_t>(values);
  const auto from = static_cast<std::size_t>(sequence * values);
  const Index row = s.tokens * s.qkv_width();
  const reference::Attention expected(s.tokens, s.heads, s.head_size, qkv + sequence * row,
                                      {s.kv_heads, s.window});
  const double score = largest_score(s, expected);
  expect_close<T>(r.out.view().subspan(from, count), expected.forward(), forward_factor(s, score));
  expect_close<T>(r.dqkv.view().subspan(static_cast<std::size_t>(sequence * row),
                                        static_cast<std::size_t>(row)),
                  expected.backward(dout + sequence * values), backward_factor<T>(s, score));
  for (Index h = 0; h < s.heads; ++h) {
    for (Index t = 0; t < s.tokens; ++t) {
      const auto at = static_cast<std::size_t>((sequence * s.heads + h) * s.tokens + t);
      EXPECT_NEAR(r.logsumexp.view()[at], expected.log_sum_exp(h, t), forward_factor(s, score));
    }
  }
}

void check(const AttentionShape& s, const std::vector<float>& values) {
  SCOPED_TRACE(testing::Message() << s.sequences << " sequences of " << s.tokens << ", " << s.heads
                                  << " heads of " << s.head_size << ", " << s.kv_heads
                                  << " of keys, window " << s.window);
  for_each_kernel([&]<class T>(simd::Isa isa) {
    const Input<T> qkv(values);
    const Input<T> dout(random_values(s.sequences * s.tokens * s.width(), 2));
    Result<T> r(s);
    run(isa, s, qkv, dout, r);
    for (Index i = 0; i < s.sequences; ++i) expect_sequence(s, i, qkv.data(), dout.data(), r);
  });
}

TEST(AttentionKernel, MatchesTheReference) {
  for (const AttentionShape& s : kShapes) {
    check(s, random_values(s.sequences * s.tokens * s.qkv_width(), 1));
  }
}

TEST(AttentionKernel, MatchesTheReferenceWithRandomShapes) {
  for (const AttentionShape& s : random_shapes())
    check(s, random_values(s.sequences * s.tokens * s.qkv_width(), 1));
}

/// The rows of tokens from `first` on.
reference::Bounded rows_from(const reference::Bounded& all, Index first, Index width) {
  reference::Bounded rows(std::ssize(all.value) - first * width);
  std::copy(all.value.begin() + first * width, all.value.end(), rows.value.begin());
  std::copy(all.magnitude.begin() + first * width, all.magnitude.end(), rows.magnitude.begin());
  return rows;
}

/// Forward of the tokens from s.first on, in buffers of just their size.
void check_later(const AttentionShape& s) {
  SCOPED_TRACE(testing::Message() << "from " << s.first << " of " << s.tokens << ", " << s.heads
                                  << " heads of " << s.head_size << ", " << s.kv_heads
                                  << " of keys, window " << s.window);
  for_each_kernel([&]<class T>(simd::Isa isa) {
    const Input<T> qkv(random_values(s.sequences * s.tokens * s.qkv_width(), 1));
    Guarded<T> out(s.sequences * s.queries() * s.width(), element<T>(Result<T>::kNan));
    Guarded<float> logsumexp(s.sequences * s.heads * s.queries(), Result<T>::kNan);
    Guarded<float> workspace(codelets::attention_workspace(s), Result<T>::kNan);
    simd::dispatch(isa, [&]<simd::Isa kIsa>() {
      codelets::attention_forward_cpu<kIsa>(s, qkv.elements(), out.get(), logsumexp.get(),
                                            workspace.get());
    });
    const Index values = s.queries() * s.width();
    for (Index i = 0; i < s.sequences; ++i) {
      const reference::Attention expected(s.tokens, s.heads, s.head_size,
                                          qkv.data() + i * s.tokens * s.qkv_width(),
                                          {s.kv_heads, s.window});
      const double factor = forward_factor(s, largest_score(s, expected));
      expect_close<T>(out.view().subspan(static_cast<std::size_t>(i * values),
                                         static_cast<std::size_t>(values)),
                      rows_from(expected.forward(), s.first, s.width()), factor);
      for (Index h = 0; h < s.heads; ++h)
        for (Index t = s.first; t < s.tokens; ++t)
          EXPECT_NEAR(logsumexp[(i * s.heads + h) * s.queries() + t - s.first],
                      expected.log_sum_exp(h, t), factor);
    }
  });
}

TEST(AttentionKernel, LaterTokensAloneMatchTheReference) {
  std::vector<AttentionShape> shapes = random_shapes();
  shapes.insert(shapes.end(), std::begin(kShapes), std::end(kShapes));
  for (AttentionShape& s : shapes)
    for (const Index first : {Index{1}, s.tokens / 2, s.tokens - 1}) {
      if (first < 1 || first >= s.tokens) continue;
      s.first = first;
      check_later(s);
    }
}

// What a window hides may be anything finite.
TEST(AttentionKernel, HiddenTokensDoNotMatter) {
  const AttentionShape s{1, 2 * kRows + 9, 4, 8, 2, 7};
  for_each_kernel([&]<class T>(simd::Isa isa) {
    const Input<T> qkv(random_values(s.tokens * s.qkv_width(), 1));
    const Input<T> dout(random_values(s.tokens * s.width(), 2));
    Result<T> before(s);
    run(isa, s, qkv, dout, before);
    Input<T> changed = qkv;
    for (Index i = 0; i < 20 * s.qkv_width(); ++i)
      changed.set(static_cast<std::size_t>(i), -3 * changed[static_cast<std::size_t>(i)]);
    Result<T> after(s);
    run(isa, s, changed, dout, after);
    // Token 26 sees 20 .. 26.
    const auto same = static_cast<std::size_t>(26 * s.width());
    EXPECT_TRUE(same_bits(before.out.view().subspan(same), after.out.view().subspan(same)));
    EXPECT_FALSE(same_bits(before.out.view().first(same), after.out.view().first(same)));
  });
}

// Scores of about +-1e4 would overflow without the subtraction of the largest. Integers keep them
// exact, so that the tolerance, which scales with them, stays meaningful.
TEST(AttentionKernel, ExtremeScoresStayFinite) {
  const AttentionShape s{1, 21, 1, 4};
  auto qkv = random_values(21 * 12, 1);
  for (std::size_t t = 0; t < 21; ++t) {
    for (std::size_t i = 0; i < 8; ++i) {
      float& each = qkv[t * 12 + i];
      each = 64.0F * std::round(each);
    }
  }
  check(s, qkv);
}

TEST(AttentionKernel, LaterTokensDoNotMatter) {
  const AttentionShape s{1, kRows + 9, 2, 8};
  const Index values = s.tokens * s.width();
  for_each_kernel([&]<class T>(simd::Isa isa) {
    const Input<T> qkv(random_values(3 * values, 1));
    const Input<T> dout(random_values(values, 2));
    Result<T> before(s);
    run(isa, s, qkv, dout, before);
    const Index first_changed = s.tokens - 3;
    Input<T> changed = qkv;
    for (auto i = static_cast<std::size_t>(first_changed * 3 * s.width()); i < changed.size(); ++i)
      changed.set(i, -changed[i]);
    Result<T> after(s);
    run(isa, s, changed, dout, after);
    const auto same = static_cast<std::size_t>(first_changed * s.width());
    EXPECT_TRUE(same_bits(before.out.view().first(same), after.out.view().first(same)));
    EXPECT_FALSE(same_bits(before.out.view(), after.out.view()));
  });
}

TEST(AttentionKernel, BadInputsGiveBadOutputs) {
  const AttentionShape s{1, 20, 1, 4};
  for (const Index part : {0, 1, 2}) {
    for_each_kernel([&]<class T>(simd::Isa isa) {
      const Input<T> dout(random_values(20 * 4, 2));
      Input<T> qkv(random_values(20 * 12, 1));
      qkv.set(static_cast<std::size_t>(7 * 12 + part * 4 + 1),
              std::numeric_limits<float>::quiet_NaN());
      Result<T> r(s);
      run(isa, s, qkv, dout, r);
      // Token 7 and, but for its query, all later ones. Earlier tokens of the tile may be spoiled
      // too: a masked weight is 0, and 0 times NaN is NaN.
      for (Index t = 7; t < 20; ++t) {
        bool bad = false;
        for (Index i = 0; i < 4; ++i) bad = bad || std::isnan(to_float(r.out[t * 4 + i]));
        EXPECT_EQ(bad, t == 7 || part != 0) << "part " << part << " token " << t;
      }
      bool bad_gradient = false;
      for (const T each : r.dqkv.view()) bad_gradient = bad_gradient || std::isnan(to_float(each));
      EXPECT_TRUE(bad_gradient);
    });
  }
}

}  // namespace
}  // namespace dos::test::attention_kernel_test
