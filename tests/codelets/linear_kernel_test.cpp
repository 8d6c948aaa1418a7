// SPDX-License-Identifier: Apache-2.0
#include "codelets/linear/linear.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "kernel_test.hpp"
#include "product_library.hpp"
#include "reference/linear.hpp"
#include "row_gaps.hpp"

namespace dos::test::linear_kernel_test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Shape {
  Index tokens;
  Index in;
  Index out;
  Index rows_per_block;
};
// The last are larger than the strips in which BF16 results take shape, and long sums over rows
// that a gap of 5 aligns.
constexpr Shape kShapes[] = {{0, 4, 3, 2},       {1, 1, 1, 1},        {1, 3, 2, 5},
                             {2, 1, 7, 3},       {5, 17, 16, 16},     {7, 33, 31, 8},
                             {64, 64, 64, 64},   {33, 65, 50, 17},    {3, 40, 1030, 600},
                             {530, 3, 261, 260}, {20, 32, 1019, 512}, {2, 3, 1027, 1027},
                             {3, 1030, 5, 5}};

template <class T>
struct Inputs {
  explicit Inputs(const Shape& s)
      : x(random_values(s.tokens * s.in, 1)),
        w(random_values(s.out * s.in, 2)),
        bias(random_values(s.out, 3)),
        residual(random_values(s.tokens * s.out, 4)),
        dy(random_values(s.tokens * s.out, 5)),
        blocks({s.out, s.in, s.rows_per_block}, w.view()) {}
  Input<T> x, w, bias, residual, dy;
  BlockedMatrix<T> blocks;
};

// Half an eps for each of the `terms` products and additions, in whatever order BLAS takes them,
// and for bias and residual.
double sum_factor(Index terms) {
  return (static_cast<double>(terms) + 3) / 2 * kEps;
}

using LinearKernel = EachProductLibrary;
INSTANTIATE_TEST_SUITE_P(By, LinearKernel, testing::ValuesIn(product_libraries()), library_name);

TEST_P(LinearKernel, ForwardMatchesTheReference) {
  for_each_kernel([]<class T>(simd::Isa isa) {
    for (const Shape& s : kShapes) {
      SCOPED_TRACE(testing::Message() << s.tokens << " x " << s.in << " x " << s.out);
      const Inputs<T> in(s);
      for (const int parts : {0, 1, 2, 3}) {
        const bool bias = (parts & 1) != 0;
        const bool residual = (parts & 2) != 0;
        const auto expected = reference::linear(s.tokens, s.in, s.out, in.x.data(), in.w.data(),
                                                bias ? in.bias.data() : nullptr,
                                                residual ? in.residual.data() : nullptr);
        for (const RowGap& gap : kRowGaps) {
          const Input<T> before(with_gaps(in.residual.exact(), s.out, gap));
          // What y held must not matter, not even a NaN.
          const std::vector<float> nans(static_cast<std::size_t>(s.tokens * s.out), kNan);
          Guarded<T> y(Input<T>(with_gaps(nans, s.out, gap)).view());
          simd::dispatch(isa, [&]<simd::Isa kIsa>() {
            codelets::linear_forward_cpu<kIsa>(
                s.tokens, in.x.elements(), in.blocks.view(), bias ? in.bias.elements() : nullptr,
                residual ? before.elements() : nullptr, y.get(), s.out + gap.count);
          });
          expect_close<T>(without_gaps(y.view(), s.out, gap), expected, sum_factor(s.in));
        }
      }
    }
  });
}

TEST_P(LinearKernel, OfOneTokenMatchesTheReference) {
  for_each_kernel([]<class T>(simd::Isa isa) {
    for (const Shape& shape : kShapes) {
      const Shape s{1, shape.in, shape.out, shape.rows_per_block};
      SCOPED_TRACE(testing::Message() << s.in << " x " << s.out);
      const Inputs<T> in(s);
      for (const int parts : {0, 1, 2, 3}) {
        const auto* bias = (parts & 1) != 0 ? &in.bias : nullptr;
        const auto* residual = (parts & 2) != 0 ? &in.residual : nullptr;
        const auto expected = reference::linear(1, s.in, s.out, in.x.data(), in.w.data(),
                                                bias == nullptr ? nullptr : bias->data(),
                                                residual == nullptr ? nullptr : residual->data());
        Guarded<T> y(s.out, element<T>(kNan));
        simd::dispatch(isa, [&]<simd::Isa kIsa>() {
          codelets::linear_row_cpu<kIsa>(
              in.x.elements(), in.blocks.view(), bias == nullptr ? nullptr : bias->elements(),
              residual == nullptr ? nullptr : residual->elements(), y.get());
        });
        expect_close<T>(y.view(), expected, sum_factor(s.in));
      }
    }
  });
}

TEST_P(LinearKernel, DataGradientMatchesTheReference) {
  for_each_kernel([]<class T>(simd::Isa isa) {
    for (const Shape& s : kShapes) {
      SCOPED_TRACE(testing::Message() << s.tokens << " x " << s.in << " x " << s.out);
      const Inputs<T> in(s);
      const auto expected =
          reference::linear_data_gradient(s.tokens, s.in, s.out, in.dy.data(), in.w.data());
      for (const RowGap& gap : kRowGaps) {
        const Input<T> dy(with_gaps(in.dy.exact(), s.out, gap));
        Guarded<T> dx(s.tokens * s.in, element<T>(kNan));
        simd::dispatch(isa, [&]<simd::Isa kIsa>() {
          codelets::linear_backward_data_cpu<kIsa>(s.tokens, dy.elements(), s.out + gap.count,
                                                   in.blocks.view(), dx.get());
        });
        expect_close<T>(dx.view(), expected, sum_factor(s.out));
      }
    }
  });
}

TEST_P(LinearKernel, WeightGradientOfEachBlockMatchesTheReference) {
  for_each_gradient_kernel([]<class T, class G>(simd::Isa isa) {
    for (const Shape& s : kShapes) {
      SCOPED_TRACE(testing::Message() << s.tokens << " x " << s.in << " x " << s.out);
      const Inputs<T> in(s);
      const RowBlocking blocking{s.out, s.in, s.rows_per_block};
      for (Index b = 0; b < blocking.count(); ++b) {
        const Index first = blocking.first_row(b);
        const Index rows = blocking.rows_of(b);
        const Input<G> before(random_values(rows * s.in, 6));
        for (const bool accumulate : {false, true}) {
          const auto expected =
              reference::linear_weight_gradient(s.tokens, s.in, s.out, first, rows, in.dy.data(),
                                                in.x.data(), accumulate ? before.data() : nullptr);
          for (const RowGap& gap : kRowGaps) {
            const Input<T> dy(with_gaps(in.dy.exact(), s.out, gap));
            Guarded<G> dw(before.view());
            simd::dispatch(isa, [&]<simd::Isa kIsa>() {
              codelets::linear_backward_weight_cpu<kIsa>(
                  {s.tokens, s.in, s.out + gap.count, first, rows, s.in}, dy.elements(),
                  in.x.elements(), accumulate, dw.get());
            });
            expect_close<G>(dw.view(), expected, sum_factor(s.tokens));
          }
        }
      }
    }
  });
}

// tokens / 4 additions of four tokens each, three left over, two inside a group, one to what was
// there: half an eps each.
TEST_P(LinearKernel, BiasGradientMatchesTheReference) {
  for_each_gradient_kernel([]<class T, class G>(simd::Isa isa) {
    for (const Shape& s : kShapes) {
      SCOPED_TRACE(testing::Message() << s.tokens << " x " << s.out);
      const Inputs<T> in(s);
      const Input<G> before(random_values(s.out, 6));
      for (const bool accumulate : {false, true}) {
        Guarded<G> dbias(before.view());
        simd::dispatch(isa, [&]<simd::Isa kIsa>() {
          codelets::bias_backward_cpu<kIsa>(s.tokens, s.out, in.dy.elements(), accumulate,
                                            dbias.get());
        });
        expect_close<G>(dbias.view(),
                        reference::bias_gradient(s.tokens, s.out, in.dy.data(),
                                                 accumulate ? before.data() : nullptr),
                        (static_cast<double>(s.tokens) / 8 + 3) * kEps);
      }
    }
  });
}

TEST_P(LinearKernel, BadInputsGiveBadOutputs) {
  for_each_gradient_kernel([]<class T, class G>(simd::Isa isa) {
    const Shape s{3, 5, 4, 2};
    Inputs<T> in(s);
    in.x.set(7, kNan);   // token 1, column 2
    in.dy.set(5, kNan);  // token 1, row 1
    Guarded<T> y(12);
    simd::dispatch(isa, [&]<simd::Isa kIsa>() {
      codelets::linear_forward_cpu<kIsa>(3, in.x.elements(), in.blocks.view(), nullptr, nullptr,
                                         y.get(), 4);
    });
    for (Index i = 0; i < 12; ++i) EXPECT_EQ(std::isnan(to_float(y[i])), i / 4 == 1) << i;
    Guarded<T> dx(15);
    simd::dispatch(isa, [&]<simd::Isa kIsa>() {
      codelets::linear_backward_data_cpu<kIsa>(3, in.dy.elements(), 4, in.blocks.view(), dx.get());
    });
    for (Index i = 0; i < 15; ++i) EXPECT_EQ(std::isnan(to_float(dx[i])), i / 5 == 1) << i;
    Guarded<G> dw(20);
    simd::dispatch(isa, [&]<simd::Isa kIsa>() {
      codelets::linear_backward_weight_cpu<kIsa>({3, 5, 4, 0, 4, 5}, in.dy.elements(),
                                                 in.x.elements(), false, dw.get());
    });
    for (Index i = 0; i < 20; ++i)
      EXPECT_EQ(std::isnan(to_float(dw[i])), i / 5 == 1 || i % 5 == 2) << i;
    Guarded<G> dbias(4);
    simd::dispatch(isa, [&]<simd::Isa kIsa>() {
      codelets::bias_backward_cpu<kIsa>(3, 4, in.dy.elements(), false, dbias.get());
    });
    for (Index i = 0; i < 4; ++i) EXPECT_EQ(std::isnan(to_float(dbias[i])), i == 1) << i;
  });
}

}  // namespace
}  // namespace dos::test::linear_kernel_test
