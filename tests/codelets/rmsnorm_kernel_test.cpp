// SPDX-License-Identifier: Apache-2.0
#include "codelets/rmsnorm/rmsnorm.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "kernel_test.hpp"
#include "reference/rmsnorm.hpp"

namespace dos::test::rmsnorm_kernel_test {
namespace {

using codelets::RmsNormShape;

constexpr float kEpsilon = 1e-5F;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Whole tokens, and heads side by side with what is no head behind them.
constexpr RmsNormShape kShapes[] = {{0, 8, kEpsilon},
                                    {1, 1, kEpsilon},
                                    {3, 1, kEpsilon},
                                    {2, 15, kEpsilon},
                                    {5, 17, kEpsilon},
                                    {7, 100, kEpsilon},
                                    {33, 65, kEpsilon},
                                    {3, 768, kEpsilon},
                                    {2, 1025, kEpsilon},
                                    {2, 2049, kEpsilon},
                                    {3, 6, kEpsilon, 3, 2},
                                    {4, 80, kEpsilon, 5, 4, 0, 7 * 80},
                                    {9, 33, 1e-3F, 4, 2, 0, 140},
                                    {2, 8, kEpsilon, 2, 1, 20, 24}};

/// Rows of x and y, with gaps.
template <class T>
struct Arrays {
  explicit Arrays(const RmsNormShape& s)
      : x(random_values(s.tokens * s.stride_of_x(), 1)),
        weight(random_values(s.weights() * s.width, 2)),
        dy(random_values(s.tokens * s.stride_of_y(), 4)),
        residual(random_values(s.tokens * s.stride_of_y(), 5)) {
    for_each_vector(s, [&](Index number, Index at, Index, Index) {
      EXPECT_EQ(number, std::ssize(statistics));
      statistics.push_back(
          static_cast<float>(reference::inverse_root(s.width, x.data() + at, s.epsilon)));
    });
  }

  /// f(number, place in x, place in y, place of the weight) for each vector.
  template <class F>
  static void for_each_vector(const RmsNormShape& s, F&& f) {
    for (Index t = 0; t < s.tokens; ++t)
      for (Index v = 0; v < s.vectors; ++v)
        f(t * s.vectors + v, t * s.stride_of_x() + v * s.width, t * s.stride_of_y() + v * s.width,
          v < s.first ? 0 : s.width);
  }

  Input<T> x, weight, dy, residual;
  std::vector<float> statistics;
};

template <class F>
void each_shape(F&& f) {
  for (const RmsNormShape& s : kShapes) {
    SCOPED_TRACE(testing::Message()
                 << s.tokens << " x " << s.vectors << " x " << s.width << ", row " << s.y_stride);
    f(s);
  }
}

/// The sum of squares runs over width / 4 terms in each of at least four lanes, half an eps each,
/// and the root halves it; the rest is under 8. In BF16 the normalised number is rounded once more.
template <class T>
double row_factor(Index width) {
  return (static_cast<double>(width) / 4 + 8) * kEps + (std::is_same_v<T, BF16> ? 0x1p-8 : 0);
}

/// |got[i] - value[i]| for the elements of one vector.
template <class T, class Out>
void expect_vector(const Out& out, Index at, const reference::Bounded& expected, double factor) {
  expect_close<T>(out.view().subspan(static_cast<std::size_t>(at), expected.value.size()), expected,
                  factor);
}

TEST(RmsNormKernel, ForwardMatchesTheReference) {
  for_each_kernel([]<class T>(simd::Isa isa) {
    each_shape([&](const RmsNormShape& s) {
      const Arrays<T> in(s);
      Guarded<T> y(s.tokens * s.stride_of_y(), element<T>(7.0F));
      Guarded<float> statistics(s.tokens * s.vectors);
      simd::dispatch(isa, [&]<simd::Isa kIsa>() {
        codelets::rmsnorm_forward_cpu<kIsa>(s, in.x.elements(), in.weight.elements(), y.get(),
                                            statistics.get());
      });
      Arrays<T>::for_each_vector(s, [&](Index number, Index x, Index at, Index weight) {
        expect_vector<T>(
            y, at,
            reference::rmsnorm(s.width, in.x.data() + x, in.weight.data() + weight, s.epsilon),
            row_factor<T>(s.width));
        const float exact = in.statistics[static_cast<std::size_t>(number)];
        EXPECT_NEAR(statistics[number], exact, row_factor<float>(s.width) * exact);
      });
      for (Index i = 0; i < y.count(); ++i) {
        if (i % s.stride_of_y() < s.row()) continue;
        ASSERT_EQ(to_float(y[i]), 7.0F) << "behind the vectors of a row";
      }
    });
  });
}

TEST(RmsNormKernel, BackwardMatchesTheReferenceInPlaceToo) {
  for_each_kernel([]<class T>(simd::Isa isa) {
    each_shape([&](const RmsNormShape& s) {
      const Arrays<T> in(s);
      for (const bool residual : {false, true})
        for (const bool in_place : {false, true}) {
          Guarded<T> dx(in.dy.view());
          simd::dispatch(isa, [&]<simd::Isa kIsa>() {
            codelets::rmsnorm_backward_cpu<kIsa>(
                s, in.x.elements(), in.weight.elements(), in.statistics.data(),
                in_place ? dx.get() : in.dy.elements(), residual ? in.residual.elements() : nullptr,
                dx.get());
          });
          Arrays<T>::for_each_vector(s, [&](Index, Index x, Index at, Index weight) {
            expect_vector<T>(dx, at,
                             reference::rmsnorm_data_gradient(
                                 s.width, in.x.data() + x, in.weight.data() + weight, s.epsilon,
                                 in.dy.data() + at, residual ? in.residual.data() + at : nullptr),
                             row_factor<float>(s.width));
          });
        }
    });
  });
}

// An addition a vector, the one to what was there, and four roundings a term; in BF16 one more.
TEST(RmsNormKernel, WeightGradientMatchesTheReference) {
  for_each_gradient_kernel([]<class T, class G>(simd::Isa isa) {
    each_shape([&](const RmsNormShape& s) {
      const Arrays<T> in(s);
      const Input<G> before(random_values(s.weights() * s.width, 6));
      for (const bool accumulate : {false, true}) {
        Guarded<G> dweight(before.view());
        simd::dispatch(isa, [&]<simd::Isa kIsa>() {
          codelets::rmsnorm_backward_weight_cpu<kIsa>(s, in.x.elements(), in.statistics.data(),
                                                      in.dy.elements(), accumulate, dweight.get());
        });
        reference::Bounded expected(s.weights() * s.width);
        for (Index i = 0; accumulate && i < s.weights() * s.width; ++i)
          expected.add(i, before[static_cast<std::size_t>(i)]);
        Arrays<T>::for_each_vector(s, [&](Index, Index x, Index at, Index weight) {
          reference::add_rmsnorm_weight_gradient(s.width, in.x.data() + x, s.epsilon,
                                                 in.dy.data() + at, expected, weight);
        });
        const double terms = static_cast<double>(s.tokens * s.vectors) / 2 + 5;
        expect_close<G>(dweight.view(), expected,
                        terms * kEps + (std::is_same_v<T, BF16> ? 0x1p-8 : 0));
      }
    });
  });
}

TEST(RmsNormKernel, CopiesTheVectorsOfEachRow) {
  for_each_kernel([]<class T>(simd::Isa isa) {
    each_shape([&](const RmsNormShape& s) {
      const Arrays<T> in(s);
      Guarded<T> copy(s.tokens * s.row());
      simd::dispatch(isa, [&]<simd::Isa kIsa>() {
        codelets::copy_vectors_cpu<kIsa>(s, in.dy.elements(), copy.get());
      });
      for (Index i = 0; i < copy.count(); ++i)
        ASSERT_EQ(to_float(copy[i]),
                  in.dy[static_cast<std::size_t>(i / s.row() * s.stride_of_y() + i % s.row())]);
    });
  });
}

TEST(RmsNormKernel, OneBadInputSpoilsItsVectorAlone) {
  for_each_gradient_kernel([]<class T, class G>(simd::Isa isa) {
    const RmsNormShape s{3, 37, kEpsilon};
    Arrays<T> in(s);
    in.x.set(40, kNan);
    Guarded<T> y(3 * 37);
    Guarded<float> statistics(3);
    Guarded<T> dx(3 * 37);
    Guarded<G> dweight(37);
    simd::dispatch(isa, [&]<simd::Isa kIsa>() {
      codelets::rmsnorm_forward_cpu<kIsa>(s, in.x.elements(), in.weight.elements(), y.get(),
                                          statistics.get());
      codelets::rmsnorm_backward_cpu<kIsa>(s, in.x.elements(), in.weight.elements(),
                                           statistics.get(), in.dy.elements(), nullptr, dx.get());
      codelets::rmsnorm_backward_weight_cpu<kIsa>(s, in.x.elements(), statistics.get(),
                                                  in.dy.elements(), false, dweight.get());
    });
    for (Index i = 0; i < 3 * 37; ++i) {
      EXPECT_EQ(std::isnan(to_float(y[i])), i / 37 == 1) << i;
      EXPECT_EQ(std::isnan(to_float(dx[i])), i / 37 == 1) << i;
    }
    EXPECT_TRUE(std::isnan(to_float(dweight[3])));
  });
}

}  // namespace
}  // namespace dos::test::rmsnorm_kernel_test
