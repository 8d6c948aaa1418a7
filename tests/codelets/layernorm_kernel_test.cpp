// SPDX-License-Identifier: Apache-2.0
#include "codelets/layernorm/layernorm.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "kernel_test.hpp"
#include "reference/layernorm.hpp"

namespace dos::test::layernorm_kernel_test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Shape {
  Index tokens;
  Index width;
};
constexpr Shape kShapes[] = {{0, 8},   {1, 1},    {1, 2},   {3, 1},   {2, 15},   {5, 17},  {4, 64},
                             {7, 100}, {13, 129}, {3, 768}, {33, 65}, {2, 1025}, {6, 2049}};

template <class T>
struct Inputs {
  explicit Inputs(const Shape& s)
      : x(features(s)),
        weight(random_values(s.width, 2)),
        bias(random_values(s.width, 3)),
        dy(random_values(s.tokens * s.width, 4)),
        residual(random_values(s.tokens * s.width, 5)) {
    for (Index t = 0; t < s.tokens; ++t) {
      const auto row =
          reference::row_statistics(s.width, x.data() + t * s.width, codelets::kLayerNormEpsilon);
      statistics.push_back(static_cast<float>(row.mean));
      statistics.push_back(static_cast<float>(row.rstd));
    }
  }
  static std::vector<float> features(const Shape& s) {
    std::vector<float> x = random_values(s.tokens * s.width, 1);
    for (float& each : x) each += 0.5F;
    for (Index i = 0; s.tokens > 2 && i < s.width; ++i)
      x[static_cast<std::size_t>(2 * s.width + i)] = 3.0F;  // a row without variance
    return x;
  }
  Input<T> x, weight, bias, dy, residual;
  std::vector<float> statistics;
};

// Sums run over width / 4 terms in each of at least four lanes, half an eps each: the mean takes
// width / 8 eps, rstd half of the variance's, the rest under 16.
double row_factor(Index width) {
  return (static_cast<double>(width) / 4 + 16) * kEps;
}

TEST(LayernormKernel, ForwardMatchesTheReference) {
  for_each_kernel([]<class T>(simd::Isa isa) {
    for (const Shape& s : kShapes) {
      SCOPED_TRACE(testing::Message() << s.tokens << " x " << s.width);
      const Inputs<T> in(s);
      Guarded<T> y(s.tokens * s.width);
      Guarded<float> statistics(2 * s.tokens);
      simd::dispatch(isa, [&]<simd::Isa kIsa>() {
        codelets::layernorm_forward_cpu<kIsa>(s.tokens, s.width, in.x.elements(),
                                              in.weight.elements(), in.bias.elements(), y.get(),
                                              statistics.get());
      });
      expect_close<T>(y.view(),
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
  for_each_kernel([]<class T>(simd::Isa isa) {
    for (const Shape& s : kShapes) {
      SCOPED_TRACE(testing::Message() << s.tokens << " x " << s.width);
      const Inputs<T> in(s);
      for (const bool residual : {false, true}) {
        Guarded<T> dx(s.tokens * s.width);
        simd::dispatch(isa, [&]<simd::Isa kIsa>() {
          codelets::layernorm_backward_cpu<kIsa>(
              s.tokens, s.width, in.x.elements(), in.weight.elements(), in.statistics.data(),
              in.dy.elements(), residual ? in.residual.elements() : nullptr, dx.get());
        });
        expect_close<T>(dx.view(),
                        reference::layernorm_data_gradient(
                            s.tokens, s.width, in.x.data(), in.weight.data(), in.statistics.data(),
                            in.dy.data(), residual ? in.residual.data() : nullptr),
                        row_factor(s.width));
      }
    }
  });
}

// tokens / 4 additions of four tokens each, three left over, the one to what was there, and five
// roundings a term: half an eps each.
TEST(LayernormKernel, WeightGradientMatchesTheReference) {
  for_each_gradient_kernel([]<class T, class G>(simd::Isa isa) {
    for (const Shape& s : kShapes) {
      SCOPED_TRACE(testing::Message() << s.tokens << " x " << s.width);
      const Inputs<T> in(s);
      const Input<G> before(random_values(2 * s.width, 6));
      for (const bool accumulate : {false, true}) {
        const auto width = static_cast<std::size_t>(s.width);
        Guarded<G> dweight(before.view().first(width));
        Guarded<G> dbias(before.view().subspan(width));
        simd::dispatch(isa, [&]<simd::Isa kIsa>() {
          codelets::layernorm_backward_weight_cpu<kIsa>(s.tokens, s.width, in.x.elements(),
                                                        in.statistics.data(), in.dy.elements(),
                                                        accumulate, dweight.get(), dbias.get());
        });
        std::vector<G> both(dweight.view().begin(), dweight.view().end());
        both.insert(both.end(), dbias.view().begin(), dbias.view().end());
        expect_close<G>(both,
                        reference::layernorm_weight_gradient(s.tokens, s.width, in.x.data(),
                                                             in.statistics.data(), in.dy.data(),
                                                             accumulate ? before.data() : nullptr),
                        (static_cast<double>(s.tokens) / 8 + 6) * kEps);
      }
    }
  });
}

TEST(LayernormKernel, OneBadInputSpoilsItsRowAlone) {
  for_each_gradient_kernel([]<class T, class G>(simd::Isa isa) {
    const Shape s{3, 37};
    Inputs<T> in(s);
    in.x.set(40, kNan);
    Guarded<T> y(3 * 37);
    Guarded<float> statistics(6);
    simd::dispatch(isa, [&]<simd::Isa kIsa>() {
      codelets::layernorm_forward_cpu<kIsa>(s.tokens, s.width, in.x.elements(),
                                            in.weight.elements(), in.bias.elements(), y.get(),
                                            statistics.get());
    });
    Guarded<T> dx(3 * 37);
    simd::dispatch(isa, [&]<simd::Isa kIsa>() {
      codelets::layernorm_backward_cpu<kIsa>(s.tokens, s.width, in.x.elements(),
                                             in.weight.elements(), statistics.get(),
                                             in.dy.elements(), nullptr, dx.get());
    });
    for (Index i = 0; i < 3 * 37; ++i) {
      EXPECT_EQ(std::isnan(to_float(y[i])), i / 37 == 1) << i;
      EXPECT_EQ(std::isnan(to_float(dx[i])), i / 37 == 1) << i;
    }
    Guarded<G> dweight(37);
    Guarded<G> dbias(37);
    simd::dispatch(isa, [&]<simd::Isa kIsa>() {
      codelets::layernorm_backward_weight_cpu<kIsa>(s.tokens, s.width, in.x.elements(),
                                                    statistics.get(), in.dy.elements(), false,
                                                    dweight.get(), dbias.get());
    });
    for (Index i = 0; i < 37; ++i) {
      EXPECT_TRUE(std::isnan(to_float(dweight[i])));
      EXPECT_FALSE(std::isnan(to_float(dbias[i])));
    }
  });
}

}  // namespace
}  // namespace dos::test::layernorm_kernel_test
