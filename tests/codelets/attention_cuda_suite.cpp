// SPDX-License-Identifier: Apache-2.0
#include "codelets/attention_cuda_suite.hpp"

#include <limits>

#include "codelets/kernel_test.hpp"
#include "reference/attention.hpp"

namespace dos::test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

double largest_score(const codelets::AttentionShape& s, const reference::Attention& expected) {
  double largest = 0;
  for (Index h = 0; h < s.heads; ++h)
    for (Index t = 0; t < s.tokens; ++t)
      largest = std::max(largest, expected.score_magnitude(h, t));
  return largest;
}

/// FP32 part of the error, relative to the magnitudes of the reference. With d = head size, T =
/// tokens and S the largest sum of |q k| terms over sqrt(d), in eps: a score is off by (d + 4) / 2
/// S; a weight by that twice (its own and the maximum's or denominator's), by the difference, the
/// factor log2(e) / sqrt(d) and their product, 3 S, and by 2 of the exponential; the denominator by
/// ln T in its logarithm and T / 2 in its sum; sums over keys or rows add T / 2; each of at most T
/// / 16 tiles scales what was summed before, by a factor that is off by 3. The batched kernels have
/// the same roundings but the last ones.
double fp32_factor(const codelets::AttentionShape& s, double score) {
  const auto d = static_cast<double>(s.head_size);
  const auto t = static_cast<double>(s.tokens);
  return ((d + 7) * score + std::log(t) + t + 3 * t / 16 + 10) * kEps;
}

/// What one sequence of a run may be off by, relative to the magnitudes of the reference. BF16, in
/// roundings: forward the weights and the result; dv the weights and itself; dq and dk the
/// gradients of the scores, out inside delta with its two, and themselves: four.
struct Tolerance {
  double logsumexp;  ///< absolute
  double out;
  double dqkv;
};

Tolerance tolerance_of(const codelets::AttentionShape& s, DType type,
                       const reference::Attention& expected) {
  const double rounding = type == DType::kBF16 ? kBf16Rounding : 0;
  const double forward = fp32_factor(s, largest_score(s, expected));
  // Heads that share keys add up their gradients, which may be rounded in between.
  const auto more = static_cast<double>(s.group() - 1);
  const double backward = 2 * forward + (static_cast<double>(s.head_size) + 8 + more) * kEps;
  return {forward, forward + 2 * rounding, backward + (4 + more) * rounding};
}

/// The results of one sequence of a run.
struct Results {
  std::vector<float> out;
  std::vector<float> dqkv;
  std::vector<float> logsumexp;
};

std::vector<float> part_of(const std::vector<float>& all, Index part, Index parts) {
  const Index size = std::ssize(all) / parts;
  return {all.begin() + part * size, all.begin() + (part + 1) * size};
}

Results results_of(const AttentionData& data, Index sequence) {
  const Index sequences = data.shape.sequences;
  return {part_of(data.out.values(), sequence, sequences),
          part_of(data.dqkv.values(), sequence, sequences),
          part_of(data.logsumexp, sequence, sequences)};
}

/// f(sequence, reference, tolerance) for each.
template <class F>
void each_sequence(const AttentionData& data, F&& f) {
  const codelets::AttentionShape& s = data.shape;
  const auto qkv = data.qkv.values();
  for (Index i = 0; i < s.sequences; ++i) {
    const reference::Attention expected(s.tokens, s.heads, s.head_size,
                                        qkv.data() + i * s.tokens * s.qkv_width(),
                                        {s.kv_heads, s.window});
    f(i, expected, tolerance_of(s, data.qkv.type(), expected));
  }
}

testing::Message name_of_case(const codelets::AttentionShape& s, DType type, Index shift) {
  return testing::Message() << name_of(type) << ", " << s.sequences << " sequences of " << s.tokens
                            << ", " << s.heads << " heads of " << s.head_size << ", " << s.kv_heads
                            << " of keys, window " << s.window << ", shifted by " << shift;
}

reference::Bounded with_values(reference::Bounded bounded, const std::vector<float>& values) {
  bounded.value.assign(values.begin(), values.end());
  return bounded;
}

}  // namespace

AttentionData::AttentionData(const codelets::AttentionShape& of, DType type, Index shift)
    : shape(of),
      qkv(type, random_values(of.sequences * of.tokens * of.qkv_width(), 1), shift),
      dout(type, random_values(of.sequences * of.tokens * of.width(), 2), shift),
      out(type, std::vector<float>(static_cast<std::size_t>(dout.count()), kNan), shift),
      dqkv(type, std::vector<float>(static_cast<std::size_t>(qkv.count()), kNan), shift),
      logsumexp(static_cast<std::size_t>(of.sequences * of.heads * of.tokens), kNan) {}

void expect_attention(const AttentionRun& run, const codelets::AttentionShape& s, DType type,
                      Index shift) {
  SCOPED_TRACE(name_of_case(s, type, shift));
  AttentionData data(s, type, shift);
  run(data);
  const auto dout = data.dout.values();
  each_sequence(data, [&](Index i, const reference::Attention& expected, const Tolerance& off) {
    const Results got = results_of(data, i);
    expect_close(std::span<const float>(got.out), expected.forward(), off.out);
    expect_close(std::span<const float>(got.dqkv),
                 expected.backward(dout.data() + i * s.tokens * s.width()), off.dqkv);
    for (Index h = 0; h < s.heads; ++h)
      for (Index t = 0; t < s.tokens; ++t)
        ASSERT_NEAR(got.logsumexp[static_cast<std::size_t>(h * s.tokens + t)],
                    expected.log_sum_exp(h, t), off.logsumexp);
  });
}

void expect_later_attention(const AttentionRun& forward, const codelets::AttentionShape& s,
                            DType type, Index shift) {
  SCOPED_TRACE(name_of_case(s, type, shift) << " from " << s.first);
  AttentionData data(s, type, shift);
  forward(data);
  const auto out = data.out.values();
  each_sequence(data, [&](Index i, const reference::Attention& expected, const Tolerance& off) {
    const reference::Bounded whole = expected.forward();
    const Index values = s.queries() * s.width();
    reference::Bounded rows(values);
    std::copy_n(whole.value.begin() + s.first * s.width(), values, rows.value.begin());
    std::copy_n(whole.magnitude.begin() + s.first * s.width(), values, rows.magnitude.begin());
    expect_close(std::span(out).subspan(static_cast<std::size_t>(i * values),
                                        static_cast<std::size_t>(values)),
                 rows, off.out);
    for (Index h = 0; h < s.heads; ++h)
      for (Index t = s.first; t < s.tokens; ++t)
        ASSERT_NEAR(
            data.logsumexp[static_cast<std::size_t>((i * s.heads + h) * s.queries() + t - s.first)],
            expected.log_sum_exp(h, t), off.logsumexp);
  });
  // Nothing behind them.
  for (std::size_t i = static_cast<std::size_t>(s.sequences * s.queries() * s.width());
       i < out.size(); ++i)
    ASSERT_TRUE(std::isnan(out[i]));
}

void expect_same_attention(const AttentionRun& one, const AttentionRun& other,
                           const codelets::AttentionShape& s, DType type) {
  SCOPED_TRACE(name_of_case(s, type, 0));
  AttentionData first(s, type, 0);
  AttentionData second(s, type, 0);
  one(first);
  other(second);
  const auto dout = first.dout.values();
  each_sequence(first, [&](Index i, const reference::Attention& expected, const Tolerance& off) {
    const Results a = results_of(first, i);
    const Results b = results_of(second, i);
    expect_close(std::span<const float>(a.out), with_values(expected.forward(), b.out),
                 2 * off.out);
    expect_close(std::span<const float>(a.dqkv),
                 with_values(expected.backward(dout.data() + i * s.tokens * s.width()), b.dqkv),
                 2 * off.dqkv);
    for (std::size_t k = 0; k < a.logsumexp.size(); ++k)
      ASSERT_NEAR(a.logsumexp[k], b.logsumexp[k], 2 * off.logsumexp);
  });
}

}  // namespace dos::test
