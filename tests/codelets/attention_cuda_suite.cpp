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
/// / 16 tiles scales what was summed before, by a factor that is off by 3.
double fp32_factor(const codelets::AttentionShape& s, double score) {
  const auto d = static_cast<double>(s.head_size);
  const auto t = static_cast<double>(s.tokens);
  return ((d + 7) * score + std::log(t) + t + 3 * t / 16 + 10) * kEps;
}

}  // namespace

AttentionData::AttentionData(const codelets::AttentionShape& of, DType type, Index shift)
    : shape(of),
      qkv(type, random_values(of.sequences * of.tokens * 3 * of.width(), 1), shift),
      dout(type, random_values(of.sequences * of.tokens * of.width(), 2), shift),
      out(type, std::vector<float>(static_cast<std::size_t>(dout.count()), kNan), shift),
      dqkv(type, std::vector<float>(static_cast<std::size_t>(qkv.count()), kNan), shift),
      logsumexp(static_cast<std::size_t>(of.sequences * of.heads * of.tokens), kNan) {}

// BF16, in roundings: forward the weights and the result; dv the weights and itself; dq and dk the
// gradients of the scores, out inside delta with its two, and themselves: four.
void expect_attention(const AttentionRun& run, const codelets::AttentionShape& s, DType type,
                      Index shift) {
  SCOPED_TRACE(testing::Message() << name_of(type) << ", " << s.sequences << " sequences of "
                                  << s.tokens << ", " << s.heads << " heads of " << s.head_size
                                  << ", shifted by " << shift);
  AttentionData data(s, type, shift);
  run(data);
  const double rounding = type == DType::kBF16 ? kBf16Rounding : 0;
  const auto qkv = data.qkv.values();
  const auto dout = data.dout.values();
  const auto out = data.out.values();
  const auto dqkv = data.dqkv.values();
  const auto count = static_cast<std::size_t>(s.tokens * s.width());
  for (Index i = 0; i < s.sequences; ++i) {
    const std::size_t from = static_cast<std::size_t>(i) * count;
    const reference::Attention expected(s.tokens, s.heads, s.head_size, qkv.data() + 3 * from);
    const double forward = fp32_factor(s, largest_score(s, expected));
    const double backward = 2 * forward + (static_cast<double>(s.head_size) + 8) * kEps;
    expect_close(std::span(out).subspan(from, count), expected.forward(), forward + 2 * rounding);
    expect_close(std::span(dqkv).subspan(3 * from, 3 * count),
                 expected.backward(dout.data() + from), backward + 4 * rounding);
    for (Index h = 0; h < s.heads; ++h)
      for (Index t = 0; t < s.tokens; ++t) {
        const auto at = static_cast<std::size_t>((i * s.heads + h) * s.tokens + t);
        ASSERT_NEAR(data.logsumexp[at], expected.log_sum_exp(h, t), forward);
      }
  }
}

}  // namespace dos::test
