// SPDX-License-Identifier: Apache-2.0
#include "codelets/update/adamw.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "kernel_test.hpp"
#include "reference/adamw.hpp"

namespace dos::test {
namespace {

using codelets::AdamWStep;

struct Case {
  Index count;
  int step = 1;
  float clip = 1.0F;
  float weight_decay = 0.1F;
  float gradient = 1.0F;  ///< its standard deviation
};
constexpr Case kCases[] = {{0},
                           {1},
                           {3},
                           {16},
                           {17},
                           {63},
                           {64},
                           {65},
                           {575},
                           {577},
                           {5000, 1000, 0.01F},
                           {100, 2, 1.0F, 0.0F},
                           {100, 5, 0.5F, 0.1F, 0.0F},
                           {100, 5, 1.0F, 0.1F, 1e-20F},
                           {100, 5, 1.0F, 0.1F, 1e-42F},
                           {100, 3, 1.0F, 0.1F, 1e15F}};

AdamWStep step_of(const Case& c) {
  AdamWStep s{.lr = 1e-3F,
              .beta1 = 0.9F,
              .beta2 = 0.999F,
              .eps = 1e-8F,
              .weight_decay = c.weight_decay,
              .inv_bias1 = 0,
              .inv_bias2 = 0};
  s.inv_bias1 = static_cast<float>(1 / (1 - std::pow(static_cast<double>(s.beta1), c.step)));
  s.inv_bias2 = static_cast<float>(1 / (1 - std::pow(static_cast<double>(s.beta2), c.step)));
  return s;
}

struct State {
  explicit State(const Case& c)
      : g(random_values(c.count, 1, c.gradient)),
        p(random_values(c.count, 2)),
        m(random_values(c.count, 3, c.step == 1 ? 0.0F : c.gradient)),
        v(random_values(c.count, 4, c.step == 1 ? 0.0F : c.gradient)) {
    for (float& each : v) each *= each;
  }
  std::vector<float> g, p, m, v;
};

struct Expected {
  std::vector<double> p, m, v, p_tolerance, m_tolerance, v_tolerance;
};

// Half an eps a rounding, relative to the terms: m 4 (g clip, two products, the sum), v 6, none of
// them cancelling in v. The quotient takes m's terms 4 + inv_bias1 2 + the root (v 6, inv_bias2 2,
// halved) 4 + root, sum and division 3 + lr and the sum 3 = 16, decay 3, the last subtraction 1.
// The floors are roundings of denormal numbers.
Expected expected_of(const Case& c, const State& s, const AdamWStep& step) {
  const reference::AdamW rule{step.lr, step.beta1, step.beta2, step.eps, step.weight_decay, c.step};
  constexpr double kFloor = 8 * 0x1p-149;
  Expected e;
  for (std::size_t i = 0; i < s.p.size(); ++i) {
    const double g = static_cast<double>(s.g[i]) * c.clip;
    const auto after = reference::adamw(rule, {s.p[i], s.m[i], s.v[i]}, g);
    const double m_terms = std::abs(rule.beta1 * s.m[i]) + std::abs((1 - rule.beta1) * g);
    const double root = std::sqrt(after.v / (1 - std::pow(rule.beta2, c.step))) + rule.eps;
    const double quotient = rule.lr * m_terms / (1 - std::pow(rule.beta1, c.step)) / root;
    const double decay = rule.lr * rule.weight_decay * std::abs(s.p[i]);
    e.p.push_back(after.p);
    e.m.push_back(after.m);
    e.v.push_back(after.v);
    e.m_tolerance.push_back(2 * kEps * m_terms + kFloor);
    e.v_tolerance.push_back(3 * kEps * after.v + kFloor);
    e.p_tolerance.push_back(kEps * (8 * quotient + 2 * decay + 0.5 * std::abs(after.p)) +
                            rule.lr * kFloor / rule.eps);
  }
  return e;
}

TEST(AdamWKernel, MatchesTheReference) {
  for_each_isa([]<simd::Isa isa>() {
    for (const Case& c : kCases) {
      SCOPED_TRACE(testing::Message() << c.count << " parameters, gradient " << c.gradient);
      const State s(c);
      const AdamWStep step = step_of(c);
      Guarded<float> p{std::span<const float>(s.p)};
      Guarded<float> m{std::span<const float>(s.m)};
      Guarded<float> v{std::span<const float>(s.v)};
      codelets::adamw_cpu<isa>(step, c.count, c.clip, s.g.data(), p.get(), m.get(), v.get());
      const Expected e = expected_of(c, s, step);
      expect_within(m.view(), e.m, e.m_tolerance);
      expect_within(v.view(), e.v, e.v_tolerance);
      expect_within(p.view(), e.p, e.p_tolerance);
    }
  });
}

TEST(AdamWKernel, WithoutGradientOnlyDecays) {
  for_each_isa([]<simd::Isa isa>() {
    const AdamWStep step = step_of({.count = 40});
    const std::vector<float> g(40, 0.0F);
    Guarded<float> p(40, 2.0F);
    Guarded<float> m(40, 0.0F);
    Guarded<float> v(40, 0.0F);
    codelets::adamw_cpu<isa>(step, 40, 1.0F, g.data(), p.get(), m.get(), v.get());
    for (Index i = 0; i < 40; ++i) {
      EXPECT_EQ(m[i], 0.0F);
      EXPECT_EQ(v[i], 0.0F);
      EXPECT_NEAR(p[i], 2.0 * (1 - 1e-3 * 0.1), 2.0 * kEps);
    }
  });
}

TEST(AdamWKernel, ANanClipLeavesEveryBit) {
  for_each_isa([]<simd::Isa isa>() {
    const Case c{.count = 577, .step = 2};
    State s(c);
    s.p[3] = std::numeric_limits<float>::quiet_NaN();
    s.m[4] = -0.0F;
    s.g[5] = std::numeric_limits<float>::infinity();
    Guarded<float> p{std::span<const float>(s.p)};
    Guarded<float> m{std::span<const float>(s.m)};
    Guarded<float> v{std::span<const float>(s.v)};
    codelets::adamw_cpu<isa>(step_of(c), c.count, std::numeric_limits<float>::quiet_NaN(),
                             s.g.data(), p.get(), m.get(), v.get());
    EXPECT_TRUE(same_bits(p.view(), std::span<const float>(s.p)));
    EXPECT_TRUE(same_bits(m.view(), std::span<const float>(s.m)));
    EXPECT_TRUE(same_bits(v.view(), std::span<const float>(s.v)));
  });
}

TEST(AdamWKernel, ABadGradientShowsInItsOwnElementAlone) {
  for_each_isa([]<simd::Isa isa>() {
    const Case c{.count = 100, .step = 2};
    State s(c);
    s.g[70] = std::numeric_limits<float>::quiet_NaN();
    codelets::adamw_cpu<isa>(step_of(c), c.count, 1.0F, s.g.data(), s.p.data(), s.m.data(),
                             s.v.data());
    for (std::size_t i = 0; i < 100; ++i) EXPECT_EQ(std::isnan(s.p[i]), i == 70) << i;
  });
}

}  // namespace
}  // namespace dos::test
