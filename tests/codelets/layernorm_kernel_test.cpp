// SPDX-License-Identifier: Apache-2.0
#include "codelets/layernorm/layernorm.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "kernel_test.hpp"
#include "reference/layernorm.hpp"

namespace dos::test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Shape {
  Index tokens;
  Index width;
};
constexpr Shape kShapes[] = {{0, 8},   {1, 1},    {1, 2},   {3, 1},   {2, 15},   {5, 17},  {4, 64},
                             {7, 100}, {13, 129}, {3, 768}, {33, 65}, {2, 1025}, {6, 2049}};

struct Inputs {
  explicit Inputs(const Shape& s)
      : x(random_values(s.tokens * s.width, 1)),
        weight(random_values(s.width, 2)),
        bias(random_values(s.width, 3)),
        dy(random_values(s.tokens * s.width, 4)),
        residual(random_values(s.tokens * s.width, 5)) {
    for (float& each : x) each += 0.5F;
    for (Index i = 0; s.tokens > 2 && i < s.width; ++i) {
      x[static_cast<std::size_t>(2 * s.width + i)] = 3.0F;  // a row without variance
    }
    for (Index t = 0; t < s.tokens; ++t) {
      const auto row =
          reference::row_statistics(s.width, x.data() + t * s.width, codelets::kLayerNormEpsilon);
      statistics.push_back(static_cast<float>(row.mean));
      statistics.push_back(static_cast<float>(row.rstd));
    }
  }
  std::vector<float> x, weight, bias, dy, residual, statistics;
};

// Sums run over width / 4 terms in each of at least four lanes, half an eps each: the mean takes
// width / 8 eps, rstd half of the variance's, the rest under 16.
double row_factor(Index width) {
  return (static_cast<double>(width) / 4 + 16) * kEps;
}

TEST(LayernormKernel, ForwardMatchesTheReference) {
  for_each_isa([]<simd::Isa isa>() {
    for (const Shape& s : kShapes) {
      SCOPED_TRACE(testing::Message() << s.tokens << " x " << s.width);
      const Inputs in(s);
      Guarded<float> y(s.tokens * s.width);
      Guarded<float> statistics(2 * s.tokens);
      codelets::layernorm_forward_cpu<isa>(s.tokens, s.width, in.x.data(), in.weight.data(),
                                           in.bias.data(), y.get(), statistics.get());
      expect_close(y.view(),
                   reference::layernorm(s.tokens, s.width, in.x.data(), in.weight.data(),
                                        in.bias.data(), codelets::kLayerNormEpsilon),
                   row_factor(s.width));
      for (Index t = 0; t < s.tokens; ++t) {
        const auto row = reference::row_statistics(s.width, in.x.data() + t * s.width,
                                                   codelets::kLayerNormEpsilon);
        EXPECT_NEAR(statistics[2 * t], row.mean, row_factor(s.width) * row.mean_magnitude);
        EXPECT_NEAR(statistics[2 * t + 1], row.rstd, row_factor(s.width) * row.rstd);
      }
    }
  });
}

TEST(LayernormKernel, BackwardMatchesTheReference) {
  for_each_isa([]<simd::Isa isa>() {
    for (const Shape& s : kShapes) {
      SCOPED_TRACE(testing::Message() << s.tokens << " x " << s.width);
      const Inputs in(s);
      for (const float* residual : {static_cast<const float*>(nullptr), in.residual.data()}) {
        Guarded<float> dx(s.tokens * s.width);
        codelets::layernorm_backward_cpu<isa>(s.tokens, s.width, in.x.data(), in.weight.data(),
                                              in.statistics.data(), in.dy.data(), residual,
                                              dx.get());
        expect_close(
            dx.view(),
            reference::layernorm_data_gradient(s.tokens, s.width, in.x.data(), in.weight.data(),
                                               in.statistics.data(), in.dy.data(), residual),
            row_factor(s.width));
      }
    }
  });
}

// tokens / 4 additions of four tokens each, three left over, the one to what was there, and five
// roundings a term: half an eps each.
TEST(LayernormKernel, WeightGradientMatchesTheReference) {
  for_each_isa([]<simd::Isa isa>() {
    for (const Shape& s : kShapes) {
      SCOPED_TRACE(testing::Message() << s.tokens << " x " << s.width);
      const Inputs in(s);
      const auto before = random_values(2 * s.width, 6);
      for (const bool accumulate : {false, true}) {
        const std::span<const float> start(before);
        const auto width = static_cast<std::size_t>(s.width);
        Guarded<float> dweight(start.first(width));
        Guarded<float> dbias(start.subspan(width));
        codelets::layernorm_backward_weight_cpu<isa>(s.tokens, s.width, in.x.data(),
                                                     in.statistics.data(), in.dy.data(), accumulate,
                                                     dweight.get(), dbias.get());
        std::vector<float> both(dweight.view().begin(), dweight.view().end());
        both.insert(both.end(), dbias.view().begin(), dbias.view().end());
        expect_close(both,
                     reference::layernorm_weight_gradient(s.tokens, s.width, in.x.data(),
                                                          in.statistics.data(), in.dy.data(),
                                                          accumulate ? before.data() : nullptr),
                     (static_cast<double>(s.tokens) / 8 + 6) * kEps);
      }
    }
  });
}

TEST(LayernormKernel, OneBadInputSpoilsItsRowAlone) {
  for_each_isa([]<simd::Isa isa>() {
    const Shape s{3, 37};
    Inputs in(s);
    in.x[40] = kNan;
    Guarded<float> y(3 * 37);
    Guarded<float> statistics(6);
    codelets::layernorm_forward_cpu<isa>(s.tokens, s.width, in.x.data(), in.weight.data(),
                                         in.bias.data(), y.get(), statistics.get());
    Guarded<float> dx(3 * 37);
    codelets::layernorm_backward_cpu<isa>(s.tokens, s.width, in.x.data(), in.weight.data(),
                                          statistics.get(), in.dy.data(), nullptr, dx.get());
    for (Index i = 0; i < 3 * 37; ++i) {
      EXPECT_EQ(std::isnan(y[i]), i / 37 == 1) << i;
      EXPECT_EQ(std::isnan(dx[i]), i / 37 == 1) << i;
    }
    Guarded<float> dweight(37);
    Guarded<float> dbias(37);
    codelets::layernorm_backward_weight_cpu<isa>(s.tokens, s.width, in.x.data(), statistics.get(),
                                                 in.dy.data(), false, dweight.get(), dbias.get());
    for (Index i = 0; i < 37; ++i) {
      EXPECT_TRUE(std::isnan(dweight[i]));
      EXPECT_FALSE(std::isnan(dbias[i]));
    }
  });
}

}  // namespace
}  // namespace dos::test
